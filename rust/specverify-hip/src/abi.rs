//! The kernels' arguments as Rust sees them: the structs of `hip/abi.h`, field by field. Addresses are device addresses, as integers.

use crate::error::{Error, Result};

/// The bytes of an argument struct.
///
/// # Safety
/// The type must be `repr(C)`, without padding and valid for any bytes, and mirror the struct of the same name in `hip/abi.h`.
pub unsafe trait Arguments: Copy {
    /// The kernarg buffer.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the type has no padding, so that each of its bytes is initialised; the lifetime is that of `self`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// A number on its way into a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// For an address, a stride, a count.
    Integer(i128),
    /// For a scale.
    Float(f64),
}

/// The type of a field.
trait Field: Sized {
    fn of(number: Number) -> Option<Self>;
}

macro_rules! integer_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn of(number: Number) -> Option<Self> {
                match number {
                    Number::Integer(value) => value.try_into().ok(),
                    Number::Float(_) => None,
                }
            }
        }
    )*};
}
integer_fields!(u64, i64, i32);

impl Field for f32 {
    fn of(number: Number) -> Option<Self> {
        match number {
            Number::Integer(value) => Some(value as f32),
            Number::Float(value) => Some(value as f32),
        }
    }
}

/// Has fields of its own, which are set by their names.
impl Field for LogitRowsArgs {
    fn of(_: Number) -> Option<Self> {
        None
    }
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, Default, PartialEq)]
            #[allow(missing_docs, reason = "hip/abi.h says what each field is")]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl $name {
                /// Sets a field by its name, for callers that have names and numbers.
                ///
                /// # Errors
                /// [`Error::Argument`] for a name that is no field, or a number that does not fit it.
                pub fn set(&mut self, field: &str, number: Number) -> Result<()> {
                    let refused = |name, expected| Error::Argument { name, value: format!("{number:?}"), expected };
                    match field {
                        $(stringify!($field) => {
                            let fits = Field::of(number).ok_or_else(|| refused(stringify!($field), stringify!($type)))?;
                            self.$field = fits;
                        })*
                        _ => return Err(Error::Argument {
                            name: stringify!($name),
                            value: format!("given a field {field:?}"),
                            expected: concat!("one of", $(" ", stringify!($field)),*),
                        }),
                    }
                    Ok(())
                }
            }

            // Padding would leave bytes of the buffer undefined.
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "padding");

            // SAFETY: `repr(C)` of integers and floats, without padding as the assertion above shows.
            unsafe impl Arguments for $name {}
        )*
    };
}

arguments! {
    /// Arguments of `tree_walk`; a workgroup of 64 a request.
    TreeWalkArgs {
        cu_nodes: u64,
        tokens: u64,
        parents: u64,
        target_tokens: u64,
        row_status: u64,
        stop_offsets: u64,
        stop_ids: u64,
        path: u64,
        emitted: u64,
        accepted: u64,
        counts: u64,
        last_token: u64,
        status: u64,
        requests: i32,
        max_path: i32,
    }

    /// Arguments of `kv_compact_16`, `_4` and `_1`: workgroups of 256, \[pools, requests, columns / 256\].
    KvCompactArgs {
        bases: u64,
        block_table: u64,
        context_lens: u64,
        path: u64,
        accepted: u64,
        page_stride: i64,
        token_stride: i64,
        head_stride: i64,
        table_stride: i64,
        pools: i32,
        requests: i32,
        heads: i32,
        head_bytes: i32,
        max_path: i32,
        page_size: i32,
    }

    /// Arguments of `kv_move_16`, `_4` and `_1`: workgroups of 256, \[pools, groups, columns / 256\].
    KvMoveArgs {
        bases: u64,
        move_offsets: u64,
        sources: u64,
        destinations: u64,
        page_stride: i64,
        token_stride: i64,
        head_stride: i64,
        pools: i32,
        groups: i32,
        heads: i32,
        head_bytes: i32,
        page_size: i32,
        reserved: i32,
    }

    /// Arguments of `mla_tree_attention_{q}_{kv}` and `mla_tree_attention_reduce_{q}`.
    MlaTreeAttentionArgs {
        out: u64,
        q: u64,
        kv: u64,
        block_table: u64,
        cu_rows: u64,
        context_lens: u64,
        ancestors: u64,
        kv_scale: u64,
        partial_out: u64,
        partial_stats: u64,
        q_stride_row: i64,
        q_stride_head: i64,
        out_stride_row: i64,
        out_stride_head: i64,
        kv_stride_page: i64,
        kv_stride_token: i64,
        table_stride: i64,
        requests: i32,
        rows: i32,
        heads: i32,
        page_size: i32,
        words: i32,
        splits: i32,
        split_keys: i32,
        scale: f32,
    }

    /// Arguments of `tree_attention_{q}_{kv}_d{dim}` and `tree_attention_reduce_{q}_d{dim}`.
    TreeAttentionArgs {
        out: u64,
        q: u64,
        k: u64,
        v: u64,
        block_table: u64,
        cu_rows: u64,
        context_lens: u64,
        ancestors: u64,
        k_scale: u64,
        v_scale: u64,
        partial_out: u64,
        partial_stats: u64,
        q_stride_row: i64,
        q_stride_head: i64,
        out_stride_row: i64,
        out_stride_head: i64,
        k_stride_page: i64,
        k_stride_token: i64,
        k_stride_head: i64,
        v_stride_page: i64,
        v_stride_token: i64,
        v_stride_head: i64,
        table_stride: i64,
        requests: i32,
        rows: i32,
        heads: i32,
        kv_heads: i32,
        page_size: i32,
        words: i32,
        splits: i32,
        split_keys: i32,
        window: i32,
        scale: f32,
        softcap: f32,
        reserved: i32,
    }

    /// Arguments of `row_maxima_{type}`, `row_masses_{type}` and `row_cuts_{type}`, and the first part of those of `target_tokens`
    /// and `coupled_children`.
    LogitRowsArgs {
        logits: u64,
        columns: u64,
        requests: u64,
        positions: u64,
        seeds: u64,
        inverse_temperatures: u64,
        top_k: u64,
        top_p: u64,
        min_p: u64,
        bias_offsets: u64,
        bias_ids: u64,
        bias_values: u64,
        allowed: u64,
        maxima: u64,
        raw_maxima: u64,
        part_maxima: u64,
        part_faults: u64,
        bin_masses: u64,
        bin_counts: u64,
        raw_totals: u64,
        cuts: u64,
        row_stride: i64,
        allowed_stride: i64,
        rows: i32,
        vocab: i32,
        parts: i32,
        part_groups: i32,
        allowed_by_row: i32,
        totals: i32,
    }

    /// Arguments of `target_tokens_{type}` and `target_logprobs_{type}`.
    TargetTokensArgs {
        rows: LogitRowsArgs,
        tokens: u64,
        status: u64,
        child_offsets: u64,
        child_ids: u64,
        child_probabilities: u64,
        token_logprobs: u64,
        top_ids: u64,
        top_logprobs: u64,
        top: i32,
        raw: i32,
    }

    /// Arguments of `coupled_children_{type}`.
    CoupledChildrenArgs {
        rows: LogitRowsArgs,
        tokens: u64,
        scores: u64,
        status: u64,
        places: i32,
        reserved: i32,
    }
}
