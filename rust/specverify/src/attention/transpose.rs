//! Keys turned so that one number of many keys stands together.

/// Keys that are turned at a time.
pub(super) const TILE: usize = 16;

/// Writes column d of the [TILE, width] `keys` to `out[d * stride..][..TILE]`; `width` is a multiple of TILE.
#[inline(always)]
pub(super) fn transpose(keys: &[f32], width: usize, out: &mut [f32], stride: usize) {
    for d in 0..width {
        let column: [f32; TILE] = std::array::from_fn(|i| keys[i * width + d]);
        out[d * stride..][..TILE].copy_from_slice(&column);
    }
}
