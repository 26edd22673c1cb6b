//! What the launchers refuse: each argument that is out of range is named, with its value and what it may be; and which kernels they choose.

use specverify_hip::abi::{KvCompactArgs, KvMoveArgs, TreeAttentionArgs, TreeWalkArgs};
use specverify_hip::tree_attention::{self, Cache, Query};
use specverify_hip::{Error, Geometry, Result, kv_compact, tree_walk};

fn attention() -> TreeAttentionArgs {
    TreeAttentionArgs {
        out: 0x1000,
        q: 0x2000,
        k: 0x3000,
        v: 0x4000,
        q_stride_row: 256,
        q_stride_head: 64,
        out_stride_row: 256,
        out_stride_head: 64,
        k_stride_page: 1024,
        k_stride_token: 64,
        k_stride_head: 64,
        v_stride_page: 1024,
        v_stride_token: 64,
        v_stride_head: 64,
        requests: 2,
        rows: 6,
        heads: 4,
        kv_heads: 2,
        page_size: 16,
        words: 1,
        splits: 1,
        ..TreeAttentionArgs::default()
    }
}

fn walk() -> TreeWalkArgs {
    TreeWalkArgs {
        cu_nodes: 0x1000,
        tokens: 0x1000,
        parents: 0x1000,
        target_tokens: 0x1000,
        path: 0x1000,
        emitted: 0x1000,
        accepted: 0x1000,
        counts: 0x1000,
        last_token: 0x1000,
        status: 0x1000,
        requests: 3,
        max_path: 4,
        ..TreeWalkArgs::default()
    }
}

fn compaction() -> KvCompactArgs {
    KvCompactArgs {
        bases: 0x1000,
        block_table: 0x1000,
        context_lens: 0x1000,
        path: 0x1000,
        accepted: 0x1000,
        page_stride: 16 * 1024,
        token_stride: 1024,
        head_stride: 256,
        table_stride: 8,
        pools: 64,
        requests: 3,
        heads: 4,
        head_bytes: 256,
        max_path: 4,
        page_size: 16,
    }
}

fn moves() -> KvMoveArgs {
    KvMoveArgs {
        bases: 0x1000,
        move_offsets: 0x1000,
        sources: 0x1000,
        destinations: 0x1000,
        page_stride: 16 * 1024,
        token_stride: 1024,
        head_stride: 256,
        pools: 64,
        groups: 3,
        heads: 4,
        head_bytes: 256,
        page_size: 16,
        reserved: 0,
    }
}

/// How good arguments are spoilt, which argument is named for it, and with which value.
type Case<'a, A> = (fn(&mut A), &'a str, &'a str);

fn refuses<A: Copy, P: std::fmt::Debug>(good: A, plan: impl Fn(&A) -> Result<P>, cases: &[Case<'_, A>]) {
    plan(&good).unwrap();
    for (spoil, argument, said) in cases {
        let mut bad = good;
        spoil(&mut bad);
        let error = plan(&bad).unwrap_err();
        let Error::Argument { name, value, expected } = &error else { panic!("{error:?}") };
        assert_eq!((name, value.as_str()), (argument, *said), "{error}");
        assert_eq!(error.to_string(), format!("{argument} is {said}; expected {expected}"));
    }
}

#[test]
fn tree_attention_refuses_what_its_kernels_cannot_do() {
    refuses(
        attention(),
        |a| tree_attention::Plan::new(Query::Bf16, Cache::Query, 64, 3, a),
        &[
            (|a| a.requests = -1, "requests", "-1"),
            (|a| a.rows = -1, "rows", "-1"),
            (|a| a.kv_heads = 0, "kv_heads", "0"),
            (|a| a.heads = 5, "heads", "5"),
            (|a| a.heads = 34, "heads", "34"),
            (|a| a.heads = 0, "heads", "0"),
            (|a| a.page_size = 8, "page_size", "8"),
            (|a| (a.words, a.ancestors) = (3, 0x1000), "words", "3"),
            (|a| a.splits = 0, "splits", "0"),
            (|a| a.splits = 65, "splits", "65"),
            (|a| a.splits = 2, "splits", "2"),
            (|a| a.split_keys = 32, "split_keys", "32"),
            (|a| a.window = -1, "window", "-1"),
            (|a| a.k_stride_token = 1 << 26, "k_stride_token", "67108864"),
            (|a| a.v_stride_page = 1020, "v_stride_page", "1020"),
            (|a| a.out_stride_head = 62, "out_stride_head", "62"),
            (|a| a.q = 0x2008, "q", "0x2008"),
            (|a| a.k = 0x3004, "k", "0x3004"),
            (|a| a.out = 0x1002, "out", "0x1002"),
            (|a| a.requests = 300_000, "requests", "300000"),
        ],
    );
    let plan = |dim, max_rows| tree_attention::Plan::new(Query::F16, Cache::Fp8, dim, max_rows, &attention());
    assert_eq!(plan(72, 3).unwrap_err().to_string(), "dim is 72; expected 64, 80, 96, 112, 128 or 256");
    for rows in [0, 129] {
        let expected = format!("max_rows is {rows}; expected 1 to 128: the root and up to 127 nodes");
        assert_eq!(plan(64, rows).unwrap_err().to_string(), expected);
    }
    assert_eq!(plan(64, 3).unwrap().attention.0, "tree_attention_f16_fp8_d64");
}

#[test]
fn tree_walk_refuses_what_its_kernel_cannot_do() {
    refuses(
        walk(),
        tree_walk::Plan::new,
        &[
            (|a| a.requests = -1, "requests", "-1"),
            (|a| a.requests = 1 << 26, "requests", "67108864"),
            (|a| a.max_path = -1, "max_path", "-1"),
            (|a| a.max_path = i32::MAX, "max_path", "2147483647"),
            (|a| a.stop_offsets = 0x1000, "stop_offsets", "0x1000"),
            (|a| a.stop_ids = 0x1000, "stop_offsets", "0x0"),
            (|a| a.cu_nodes = 0, "cu_nodes", "null"),
            (|a| a.target_tokens = 0, "target_tokens", "null"),
            (|a| a.emitted = 0, "emitted", "null"),
            (|a| a.accepted = 0, "accepted", "null"),
            (|a| a.counts = 0, "counts", "null"),
            (|a| a.last_token = 0, "last_token", "null"),
            (|a| a.status = 0, "status", "null"),
            (|a| a.path = 0, "path", "null"),
            (|a| a.tokens = 0x1002, "tokens", "0x1002"),
            (|a| a.counts = 0x1001, "counts", "0x1001"),
            (|a| a.row_status = 0x1003, "row_status", "0x1003"),
        ],
    );
    let grid = |a: &TreeWalkArgs| tree_walk::Plan::new(a).unwrap().geometry;
    assert_eq!(grid(&walk()), Geometry { grid: [3, 1, 1], block: 64, dynamic_lds: 0 });
    // No requests need no addresses, no nodes no paths.
    assert_eq!(grid(&TreeWalkArgs::default()).grid, [0, 1, 1]);
    grid(&TreeWalkArgs { tokens: 0, parents: 0, path: 0, max_path: 0, ..walk() });
}

#[test]
fn kv_compact_refuses_what_its_kernels_cannot_do() {
    refuses(
        compaction(),
        |a| kv_compact::Plan::compact(16, a),
        &[
            (|a| a.pools = -1, "pools", "-1"),
            (|a| a.pools = 1 << 24, "pools", "16777216"),
            (|a| a.heads = 0, "heads", "0"),
            (|a| a.head_bytes = 0, "head_bytes", "0"),
            (|a| a.page_size = 0, "page_size", "0"),
            (|a| a.page_stride = 255, "page_stride", "255"),
            (|a| a.token_stride = 0, "token_stride", "0"),
            (|a| a.head_stride = 128, "head_stride", "128"),
            (|a| (a.heads, a.head_bytes, a.head_stride) = (i32::MAX, 1, 1), "heads", "2147483647"),
            (|a| a.requests = 65_536, "requests", "65536"),
            (|a| a.requests = -1, "requests", "-1"),
            (|a| a.max_path = -1, "max_path", "-1"),
            (|a| a.table_stride = -1, "table_stride", "-1"),
            (|a| a.bases = 0, "bases", "null"),
            (|a| a.bases = 0x1004, "bases", "0x1004"),
            (|a| a.block_table = 0, "block_table", "null"),
            (|a| a.context_lens = 0x1002, "context_lens", "0x1002"),
            (|a| a.path = 0, "path", "null"),
            (|a| a.accepted = 0, "accepted", "null"),
        ],
    );
    refuses(
        moves(),
        |a| kv_compact::Plan::moves(16, a),
        &[
            (|a| a.pools = -1, "pools", "-1"),
            (|a| a.head_bytes = -1, "head_bytes", "-1"),
            (|a| a.token_stride = -1024, "token_stride", "-1024"),
            (|a| a.groups = 65_536, "groups", "65536"),
            (|a| a.bases = 0, "bases", "null"),
            (|a| a.move_offsets = 0, "move_offsets", "null"),
            (|a| a.sources = 0x1004, "sources", "0x1004"),
            (|a| a.destinations = 0x1001, "destinations", "0x1001"),
        ],
    );
    for alignment in [0, 3, 24] {
        let error = kv_compact::Plan::compact(alignment, &compaction()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("base_alignment is {alignment}; expected a power of two")));
    }
    // One token a page and one head: their strides are never used.
    let one = KvCompactArgs { page_size: 1, heads: 1, token_stride: 0, head_stride: 0, ..compaction() };
    kv_compact::Plan::compact(16, &one).unwrap();
    let none = KvCompactArgs { requests: 0, bases: 0, block_table: 0, path: 0, context_lens: 0, accepted: 0, ..one };
    assert_eq!(kv_compact::Plan::compact(16, &none).unwrap().geometry.grid[1], 0);
}

/// The widest move that divides the addresses, the strides and the bytes of a head.
#[test]
fn kv_compact_moves_as_many_bytes_at_once_as_the_alignment_allows() {
    let good = compaction();
    let cases: [(u64, KvCompactArgs, &str, u32); 8] = [
        (16, good, "16", 1),
        (4096, good, "16", 1),
        (8, good, "4", 1),
        (4, good, "4", 1),
        (2, good, "1", 4),
        (16, KvCompactArgs { head_bytes: 252, ..good }, "4", 1),
        (16, KvCompactArgs { token_stride: 1025, ..good }, "1", 4),
        (16, KvCompactArgs { page_stride: 16 * 1024 + 8, head_stride: 260, ..good }, "4", 1),
    ];
    for (alignment, a, width, blocks) in cases {
        let plan = kv_compact::Plan::compact(alignment, &a).unwrap();
        let geometry = Geometry { grid: [64, 3, blocks], block: 256, dynamic_lds: 0 };
        assert_eq!((plan.kernel, plan.geometry), (format!("kv_compact_{width}").as_str(), geometry));
    }
    for (alignment, width, blocks) in [(32, "16", 1), (4, "4", 1), (1, "1", 4)] {
        let plan = kv_compact::Plan::moves(alignment, &moves()).unwrap();
        let geometry = Geometry { grid: [64, 3, blocks], block: 256, dynamic_lds: 0 };
        assert_eq!((plan.kernel, plan.geometry), (format!("kv_move_{width}").as_str(), geometry));
    }
    // 4096 heads of 256 bytes are 65536 columns of 16.
    let wide = KvCompactArgs { heads: 4096, token_stride: 1 << 20, page_stride: 1 << 24, ..good };
    assert_eq!(kv_compact::Plan::compact(16, &wide).unwrap().geometry.grid, [64, 3, 256]);
}
