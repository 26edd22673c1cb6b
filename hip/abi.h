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
