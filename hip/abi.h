// Arguments of the kernels: one struct each, passed by value, so that the kernarg buffer is the struct's bytes.
// Mirrored field by field by the loader (rust/specverify-hip/src/abi.rs). Strides count elements.
#pragma once

// tree_attention_{q}_{kv}_d{dim} and tree_attention_reduce_{q}_d{dim}.
// Shapes: q and out [rows, heads, dim]; k and v by strides, dim contiguous; rows of request b are cu_rows[b]..cu_rows[b + 1].
typedef struct TreeAttentionArgs {
  void* out;
  const void* q;
  const void* k;
  const void* v;
  const int* block_table;               // [requests, table_stride], page of every page_size keys
  const int* cu_rows;                   // [requests + 1]
  const int* context_lens;              // [requests], keys in the cache before the root
  const unsigned long long* ancestors;  // [rows, words], or null for a chain
  const float* k_scale;                 // one value each, or null for 1
  const float* v_scale;
  float* partial_out;                   // [splits, rows, heads, dim], null when splits is 1
  float* partial_stats;                 // [splits, rows, heads, 2]: maximum (log2 domain) and sum, null when splits is 1
  long long q_stride_row;
  long long q_stride_head;
  long long out_stride_row;
  long long out_stride_head;
  long long k_stride_page;
  long long k_stride_token;
  long long k_stride_head;
  long long v_stride_page;
  long long v_stride_token;
  long long v_stride_head;
  long long table_stride;
  int requests;
  int rows;        // capacity of q: the first dimension of the workspace
  int heads;
  int kv_heads;
  int page_size;   // a multiple of 16
  int words;       // u64 words of a row of ancestors: 1 or 2
  int splits;      // 1 to 64
  int split_keys;  // keys of a split, a multiple of 64; 0: the request's own keys are spread evenly
  int window;      // 0: none
  float scale;     // of q . k, natural logarithm
  float softcap;   // 0: none
  int reserved;
} TreeAttentionArgs;

// mla_tree_attention_{q}_{kv} and mla_tree_attention_reduce_{q}: absorbed MLA, one latent key a token for all heads.
// Shapes: q [rows, heads, 512 + 64]; kv 576 elements a token, contiguous, the first 512 of them the value; out [rows, heads, 512].
typedef struct MlaTreeAttentionArgs {
  void* out;
  const void* q;
  const void* kv;
  const int* block_table;               // [requests, table_stride], page of every page_size keys
  const int* cu_rows;                   // [requests + 1]
  const int* context_lens;              // [requests], keys in the cache before the root
  const unsigned long long* ancestors;  // [rows, words], or null for a chain
  const float* kv_scale;                // one value, or null for 1
  float* partial_out;                   // [splits, rows, heads, 512], null when splits is 1
  float* partial_stats;                 // [splits, rows, heads, 2]: maximum (log2 domain) and sum, null when splits is 1
  long long q_stride_row;
  long long q_stride_head;
  long long out_stride_row;
  long long out_stride_head;
  long long kv_stride_page;
  long long kv_stride_token;
  long long table_stride;
  int requests;
  int rows;        // capacity of q: the first dimension of the workspace
  int heads;       // 1 to 128
  int page_size;   // 1 or more
  int words;       // u64 words of a row of ancestors: 1 or 2
  int splits;      // 1 to 256
  int split_keys;  // keys of a split, a multiple of 64; 0: the request's own keys are spread evenly
  float scale;     // of q . k, natural logarithm
} MlaTreeAttentionArgs;

// tree_walk: walks each request's draft tree with the target's token of each row. A workgroup of 64 threads a request.
// Request b has nodes cu_nodes[b]..cu_nodes[b + 1] and one row more: its rows start at cu_nodes[b] + b. Parents are local to the request,
// -1 for children of the root.
typedef struct TreeWalkArgs {
  const int* cu_nodes;       // [requests + 1]
  const int* tokens;         // [nodes], drafted
  const int* parents;        // [nodes]
  const int* target_tokens;  // [nodes + requests], the target's own token of each row
  const int* row_status;     // [nodes + requests], 0 where that token is good; or null
  const int* stop_offsets;   // [requests + 1] into stop_ids; or null
  const int* stop_ids;       // a request's stop tokens
  int* path;                 // [requests, max_path], accepted nodes, -1 after them
  int* emitted;              // [requests, max_path + 1], accepted tokens and one more, -1 after them
  int* accepted;             // [requests], nodes of the path
  int* counts;               // [requests], tokens emitted
  int* last_token;           // [requests], the last of them, -1 for none
  int* status;               // [requests], 0, or the row_status that ended the walk, or -1: the path is longer than max_path
  int requests;
  int max_path;
} TreeWalkArgs;

// kv_compact_{16,4,1}: the keys and values of accepted nodes move to the slots that follow the root's, in every layer.
// Node i of request b stands at key context_lens[b] + 1 + i. Strides are in bytes, the same for every pool.
typedef struct KvCompactArgs {
  const unsigned long long* bases;  // [pools], addresses: the keys and the values of every layer
  const int* block_table;           // [requests, table_stride]
  const int* context_lens;          // [requests], keys before the root
  const int* path;                  // [requests, max_path]
  const int* accepted;              // [requests]
  long long page_stride;
  long long token_stride;
  long long head_stride;
  long long table_stride;           // elements
  int pools;
  int requests;
  int heads;
  int head_bytes;
  int max_path;
  int page_size;                    // tokens
} KvCompactArgs;

// kv_move_{16,4,1}: the same for a list of moves between slots (page * page_size + offset). Those of a group run in order, groups in
// any order.
typedef struct KvMoveArgs {
  const unsigned long long* bases;  // [pools]
  const int* move_offsets;          // [groups + 1]
  const long long* sources;         // [moves]
  const long long* destinations;    // [moves]
  long long page_stride;
  long long token_stride;
  long long head_stride;
  int pools;
  int groups;
  int heads;
  int head_bytes;
  int page_size;
  int reserved;
} KvMoveArgs;

// What a row of logits depends on, and what is found out about it: row_maxima_{type}, row_masses_{type} and row_cuts_{type}, shared by
// target_tokens and coupled_children. V ids, of which 64 consecutive ones are a group; groups = ceil(V / 64), at most 4096. A row is read by `parts`
// workgroups. Pointers that are null switch off what they stand for.
typedef struct LogitRowsArgs {
  const void* logits;                  // [rows, columns], row_stride elements apart, f32, bf16 or f16
  const int* columns;                  // [V], the column of each id, -1 for none; null: id i is column i
  const int* requests;                 // [rows], the request of each row; negative: the row is not used
  const unsigned int* positions;       // [rows], of the token that the row gives
  const unsigned long long* seeds;     // [requests]
  const float* inverse_temperatures;   // [requests], 1 / T, rounded once; 0: greedy
  const int* top_k;                    // [requests], 0 or less: all; or null
  const float* top_p;                  // [requests], 1: all; or null
  const float* min_p;                  // [requests], 0: all; or null
  const int* bias_offsets;             // [requests + 1] into bias_ids; or null
  const int* bias_ids;                 // ascending within a request, each id once
  const float* bias_values;            // finite, or -inf for a ban
  const unsigned int* allowed;         // [requests or rows, allowed_stride] bit i % 32 of word i / 32: id i may be drawn; or null
  float* maxima;                       // workspace [rows, groups]: of the logits after bias and mask
  float* raw_maxima;                   // workspace [rows, groups]: of the logits as they came; null: not wanted
  float* part_maxima;                  // workspace [rows, parts, 2]: the same two of each part
  unsigned int* part_faults;           // workspace [rows, parts]
  unsigned long long* bin_masses;      // workspace [rows, parts, 1024]; null: no row_masses runs, top_p is null and totals 0
  unsigned int* bin_counts;            // workspace [rows, parts, 1024]
  unsigned long long* raw_totals;      // workspace [rows, parts], null unless raw_maxima is given
  void* cuts;                          // [rows], a Cut (cut.h) each: what the filters leave, 24 bytes, of which the last 8 are its mass as
                                       // a u64, 2^40 for the row's maximum; null when there is neither top_k nor top_p and totals is 0
  long long row_stride;                // elements
  long long allowed_stride;            // words
  int rows;
  int vocab;                           // V, 1 to 262144
  int parts;                           // 1 to 64
  int part_groups;                     // groups of a part, at most 4096: parts * part_groups >= groups
  int allowed_by_row;                  // whether `allowed` has a row for each row of logits, not for each request
  int totals;                          // whether the mass of every row is wanted, with filters or without
} LogitRowsArgs;

// target_tokens_{type}: the target's token of each row; target_logprobs_{type}: on request, after it, what else is wanted of the rows.
// status: 0; 1 the row holds NaN; 2 it holds +inf; 3 nothing is left that could be drawn; 4 the row is not used. Token -1 unless 0.
typedef struct TargetTokensArgs {
  LogitRowsArgs rows;
  int* tokens;               // [rows]
  int* status;               // [rows]
  const int* child_offsets;  // [rows + 1] into child_ids; or null
  const int* child_ids;
  float* child_probabilities;
  float* token_logprobs;     // [rows]; or null
  int* top_ids;              // [rows, top], -1 after the last
  float* top_logprobs;       // [rows, top], -inf after the last
  int top;                   // 0 to 64
  int raw;                   // 1: log-probabilities of the logits as they came; 0: after all parameters
} TargetTokensArgs;

// coupled_children_{type}: the first finishers of the same race over a drafter's rows, at T = 0 the greatest logits.
typedef struct CoupledChildrenArgs {
  LogitRowsArgs rows;
  int* tokens;    // [rows, places], best first, -1 after the last
  float* scores;  // [rows, places], -inf after the last
  int* status;    // [rows], as above
  int places;     // 1 to 64
  int reserved;
} CoupledChildrenArgs;
