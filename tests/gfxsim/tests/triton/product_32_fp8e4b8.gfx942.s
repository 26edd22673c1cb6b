	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 5
	.text
	.globl	product                         ; -- Begin function product
	.p2align	8
	.type	product,@function
product:                                ; @product
.Lfunc_begin0:
; %bb.1:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dwordx8 s[4:11], s[0:1], 0x8
	s_waitcnt lgkmcnt(0)
	s_branch .LBB0_0
.Ltmp0:
	.p2align	8
; %bb.2:
.LBB0_0:
.Ltmp1:
	global_load_ubyte v40, v0, s[2:3]
	global_load_ubyte v41, v0, s[2:3] offset:64
	global_load_ubyte v42, v0, s[2:3] offset:128
	global_load_ubyte v43, v0, s[2:3] offset:192
	global_load_ubyte v44, v0, s[2:3] offset:256
	global_load_ubyte v45, v0, s[2:3] offset:320
	global_load_ubyte v46, v0, s[2:3] offset:384
	global_load_ubyte v47, v0, s[2:3] offset:448
	global_load_ubyte v48, v0, s[2:3] offset:512
	global_load_ubyte v49, v0, s[2:3] offset:576
	global_load_ubyte v50, v0, s[2:3] offset:640
	global_load_ubyte v51, v0, s[2:3] offset:704
	global_load_ubyte v52, v0, s[2:3] offset:768
	global_load_ubyte v53, v0, s[2:3] offset:832
	global_load_ubyte v54, v0, s[2:3] offset:896
	global_load_ubyte v55, v0, s[2:3] offset:960
	global_load_ubyte v56, v0, s[2:3] offset:1024
	global_load_ubyte v57, v0, s[2:3] offset:1088
	global_load_ubyte v58, v0, s[2:3] offset:1152
	global_load_ubyte v59, v0, s[2:3] offset:1216
	global_load_ubyte v60, v0, s[2:3] offset:1280
	global_load_ubyte v61, v0, s[2:3] offset:1344
	global_load_ubyte v62, v0, s[2:3] offset:1408
	global_load_ubyte v63, v0, s[2:3] offset:1472
	global_load_ubyte v64, v0, s[2:3] offset:1536
	global_load_ubyte v65, v0, s[2:3] offset:1600
	global_load_ubyte v66, v0, s[2:3] offset:1664
	global_load_ubyte v67, v0, s[2:3] offset:1728
	global_load_ubyte v68, v0, s[2:3] offset:1792
	global_load_ubyte v69, v0, s[2:3] offset:1856
	global_load_ubyte v70, v0, s[2:3] offset:1920
	global_load_ubyte v71, v0, s[2:3] offset:1984
	v_and_b32_e32 v2, 31, v0
	v_and_b32_e32 v4, 32, v0
	v_mov_b32_e32 v5, 0
	v_lshl_add_u64 v[6:7], s[4:5], 0, v[4:5]
	v_mov_b32_e32 v3, v5
	v_lshlrev_b32_e32 v8, 7, v2
	v_mov_b32_e32 v9, v5
	v_lshl_add_u64 v[6:7], v[6:7], 0, v[2:3]
	v_lshl_add_u64 v[8:9], s[6:7], 0, v[8:9]
	v_lshrrev_b32_e32 v10, 1, v4
	v_mov_b32_e32 v11, v5
	v_lshl_add_u64 v[16:17], v[8:9], 0, v[10:11]
	global_load_ubyte v3, v[6:7], off offset:192
	global_load_ubyte v5, v[6:7], off offset:128
	global_load_ubyte v8, v[6:7], off offset:64
	global_load_ubyte v9, v[6:7], off
	global_load_ubyte v10, v[6:7], off offset:448
	global_load_ubyte v11, v[6:7], off offset:384
	global_load_ubyte v12, v[6:7], off offset:320
	global_load_ubyte v13, v[6:7], off offset:256
	global_load_ubyte v14, v[6:7], off offset:704
	global_load_ubyte v15, v[6:7], off offset:640
	global_load_ubyte v18, v[6:7], off offset:576
	global_load_ubyte v19, v[6:7], off offset:512
	global_load_ubyte v20, v[6:7], off offset:960
	global_load_ubyte v21, v[6:7], off offset:896
	global_load_ubyte v22, v[6:7], off offset:832
	global_load_ubyte v23, v[6:7], off offset:768
	global_load_ubyte v24, v[6:7], off offset:1216
	global_load_ubyte v25, v[6:7], off offset:1152
	global_load_ubyte v26, v[6:7], off offset:1088
	global_load_ubyte v27, v[6:7], off offset:1024
	global_load_ubyte v28, v[6:7], off offset:1472
	global_load_ubyte v29, v[6:7], off offset:1408
	global_load_ubyte v30, v[6:7], off offset:1344
	global_load_ubyte v31, v[6:7], off offset:1280
	global_load_ubyte v32, v[6:7], off offset:1728
	global_load_ubyte v33, v[6:7], off offset:1664
	global_load_ubyte v34, v[6:7], off offset:1600
	global_load_ubyte v35, v[6:7], off offset:1536
	global_load_ubyte v36, v[6:7], off offset:1984
	global_load_ubyte v37, v[6:7], off offset:1920
	global_load_ubyte v38, v[6:7], off offset:1856
	global_load_ubyte v39, v[6:7], off offset:1792
	v_add_u32_e32 v1, 0, v0
	v_cmp_eq_u32_e32 vcc, 0, v4
	v_lshrrev_b32_e32 v4, 2, v4
	s_mov_b32 s0, 0xc0c0004
	s_waitcnt vmcnt(62)
	ds_write_b8 v1, v40
	ds_write_b8 v1, v41 offset:64
	s_waitcnt vmcnt(47)
	ds_write_b8 v1, v56 offset:1024
	s_waitcnt vmcnt(46)
	ds_write_b8 v1, v57 offset:1088
	v_xad_u32 v1, v0, 8, 0
	ds_write_b8 v1, v42 offset:128
	ds_write_b8 v1, v43 offset:192
	s_waitcnt vmcnt(45)
	ds_write_b8 v1, v58 offset:1152
	s_waitcnt vmcnt(44)
	ds_write_b8 v1, v59 offset:1216
	v_xad_u32 v1, v0, 16, 0
	ds_write_b8 v1, v44 offset:256
	ds_write_b8 v1, v45 offset:320
	s_waitcnt vmcnt(43)
	ds_write_b8 v1, v60 offset:1280
	s_waitcnt vmcnt(42)
	ds_write_b8 v1, v61 offset:1344
	v_xad_u32 v1, v0, 24, 0
	ds_write_b8 v1, v46 offset:384
	ds_write_b8 v1, v47 offset:448
	s_waitcnt vmcnt(41)
	ds_write_b8 v1, v62 offset:1408
	s_waitcnt vmcnt(40)
	ds_write_b8 v1, v63 offset:1472
	v_xad_u32 v1, v0, 32, 0
	ds_write_b8 v1, v48 offset:512
	ds_write_b8 v1, v49 offset:576
	s_waitcnt vmcnt(39)
	ds_write_b8 v1, v64 offset:1536
	s_waitcnt vmcnt(38)
	ds_write_b8 v1, v65 offset:1600
	v_xad_u32 v1, v0, 40, 0
	ds_write_b8 v1, v50 offset:640
	ds_write_b8 v1, v51 offset:704
	s_waitcnt vmcnt(37)
	ds_write_b8 v1, v66 offset:1664
	s_waitcnt vmcnt(36)
	ds_write_b8 v1, v67 offset:1728
	v_xad_u32 v1, v0, 48, 0
	ds_write_b8 v1, v52 offset:768
	ds_write_b8 v1, v53 offset:832
	s_waitcnt vmcnt(35)
	ds_write_b8 v1, v68 offset:1792
	s_waitcnt vmcnt(34)
	ds_write_b8 v1, v69 offset:1856
	v_xad_u32 v1, v0, 56, 0
	v_lshlrev_b32_e32 v0, 2, v0
	ds_write_b8 v1, v54 offset:896
	ds_write_b8 v1, v55 offset:960
	s_waitcnt vmcnt(33)
	ds_write_b8 v1, v70 offset:1920
	s_waitcnt vmcnt(32)
	ds_write_b8 v1, v71 offset:1984
	v_and_b32_e32 v1, 56, v0
	v_xor_b32_e32 v1, v1, v4
	v_lshl_or_b32 v1, v2, 6, v1
	v_add_u32_e32 v2, 0, v1
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read_b64 v[40:41], v2
	v_xad_u32 v2, v1, 16, 0
	ds_read_b64 v[42:43], v2
	v_xad_u32 v2, v1, 32, 0
	v_xad_u32 v1, v1, 48, 0
	ds_read_b64 v[44:45], v2
	ds_read_b64 v[46:47], v1
	s_waitcnt vmcnt(28)
	v_perm_b32 v1, v9, v8, s0
	v_perm_b32 v2, v5, v3, s0
	v_lshl_or_b32 v1, v2, 16, v1
	s_waitcnt vmcnt(24)
	v_perm_b32 v2, v13, v12, s0
	v_perm_b32 v3, v11, v10, s0
	v_lshl_or_b32 v2, v3, 16, v2
	s_waitcnt vmcnt(20)
	v_perm_b32 v3, v19, v18, s0
	v_perm_b32 v4, v15, v14, s0
	v_lshl_or_b32 v3, v4, 16, v3
	s_waitcnt vmcnt(16)
	v_perm_b32 v4, v23, v22, s0
	v_perm_b32 v5, v21, v20, s0
	v_lshl_or_b32 v4, v5, 16, v4
	s_waitcnt vmcnt(12)
	v_perm_b32 v5, v27, v26, s0
	v_perm_b32 v6, v25, v24, s0
	v_lshl_or_b32 v5, v6, 16, v5
	s_waitcnt vmcnt(8)
	v_perm_b32 v6, v31, v30, s0
	v_perm_b32 v7, v29, v28, s0
	v_lshl_or_b32 v6, v7, 16, v6
	s_waitcnt vmcnt(4)
	v_perm_b32 v7, v35, v34, s0
	v_perm_b32 v8, v33, v32, s0
	v_lshl_or_b32 v7, v8, 16, v7
	s_waitcnt vmcnt(0)
	v_perm_b32 v8, v39, v38, s0
	v_perm_b32 v9, v37, v36, s0
	v_lshl_or_b32 v8, v9, 16, v8
	v_cndmask_b32_e32 v9, v2, v1, vcc
	v_cndmask_b32_e32 v1, v1, v2, vcc
	v_cndmask_b32_e32 v2, v4, v3, vcc
	v_cndmask_b32_e32 v3, v3, v4, vcc
	v_cndmask_b32_e32 v4, v6, v5, vcc
	v_cndmask_b32_e32 v5, v5, v6, vcc
	v_cndmask_b32_e32 v6, v8, v7, vcc
	v_cndmask_b32_e32 v7, v7, v8, vcc
	v_xor_b32_e32 v0, 0x80, v0
	ds_bpermute_b32 v1, v0, v1
	ds_bpermute_b32 v3, v0, v3
	ds_bpermute_b32 v5, v0, v5
	ds_bpermute_b32 v0, v0, v7
	v_mov_b32_e32 v7, 0x1504
	v_mov_b32_e32 v8, 0x5140
	v_cndmask_b32_e32 v7, v7, v8, vcc
	v_mov_b32_e32 v8, 0x3726
	v_mov_b32_e32 v10, 0x7362
	v_cndmask_b32_e32 v8, v8, v10, vcc
	v_lshl_or_b32 v7, v7, 8, v7
	v_lshl_or_b32 v8, v8, 8, v8
	v_and_b32_e32 v7, 0x550044, v7
	v_and_b32_e32 v8, 0x770066, v8
	v_lshl_or_b32 v7, v7, 4, v7
	v_lshl_or_b32 v8, v8, 4, v8
	v_and_b32_e32 v7, 0x5050404, v7
	v_and_b32_e32 v8, 0x7070606, v8
	s_waitcnt lgkmcnt(3)
	v_perm_b32 v18, v1, v9, v7
	v_perm_b32 v19, v1, v9, v8
	s_waitcnt lgkmcnt(2)
	v_perm_b32 v20, v3, v2, v7
	v_perm_b32 v21, v3, v2, v8
	s_waitcnt lgkmcnt(1)
	v_perm_b32 v22, v5, v4, v7
	v_perm_b32 v23, v5, v4, v8
	s_waitcnt lgkmcnt(0)
	v_perm_b32 v24, v0, v6, v7
	v_perm_b32 v25, v0, v6, v8
	v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[18:19], v[40:41], 0
	v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[20:21], v[42:43], v[0:15]
	v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[22:23], v[44:45], v[0:15]
	v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[24:25], v[46:47], v[0:15]
	s_nop 10
	global_store_dwordx4 v[16:17], v[0:3], off
	global_store_dwordx4 v[16:17], v[4:7], off offset:32
	global_store_dwordx4 v[16:17], v[8:11], off offset:64
	global_store_dwordx4 v[16:17], v[12:15], off offset:96
	s_endpgm
.Ltmp2:
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel product
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 40
		.amdhsa_user_sgpr_count 12
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 10
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 72
		.amdhsa_next_free_sgpr 12
		.amdhsa_accum_offset 72
		.amdhsa_reserve_vcc 1
		.amdhsa_reserve_xnack_mask 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	product, .Lfunc_end0-product
                                        ; -- End function
	.set product.num_vgpr, 72
	.set product.num_agpr, 0
	.set product.numbered_sgpr, 12
	.set product.num_named_barrier, 0
	.set product.private_seg_size, 0
	.set product.uses_vcc, 1
	.set product.uses_flat_scratch, 0
	.set product.has_dyn_sized_stack, 0
	.set product.has_recursion, 0
	.set product.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
; Kernel info:
; codeLenInByte = 1868
; TotalNumSgprs: 18
; NumVgprs: 72
; NumAgprs: 0
; TotalNumVgprs: 72
; ScratchSize: 0
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 2
; VGPRBlocks: 8
; NumSGPRsForWavesPerEU: 18
; NumVGPRsForWavesPerEU: 72
; AccumOffset: 72
; Occupancy: 7
; WaveLimiterHint : 0
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 12
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
; COMPUTE_PGM_RSRC3_GFX90A:ACCUM_OFFSET: 17
; COMPUTE_PGM_RSRC3_GFX90A:TG_SPLIT: 0
	.text
	.p2alignl 6, 3212836864
	.fill 256, 4, 3212836864
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 0
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 0
	.set amdgpu.max_num_named_barrier, 0
	.text
	.section	.debug_abbrev,"",@progbits
	.byte	1                               ; Abbreviation Code
	.byte	17                              ; DW_TAG_compile_unit
	.byte	0                               ; DW_CHILDREN_no
	.byte	37                              ; DW_AT_producer
	.byte	14                              ; DW_FORM_strp
	.byte	19                              ; DW_AT_language
	.byte	5                               ; DW_FORM_data2
	.byte	3                               ; DW_AT_name
	.byte	14                              ; DW_FORM_strp
	.byte	16                              ; DW_AT_stmt_list
	.byte	23                              ; DW_FORM_sec_offset
	.byte	27                              ; DW_AT_comp_dir
	.byte	14                              ; DW_FORM_strp
	.byte	17                              ; DW_AT_low_pc
	.byte	1                               ; DW_FORM_addr
	.byte	18                              ; DW_AT_high_pc
	.byte	6                               ; DW_FORM_data4
	.byte	0                               ; EOM(1)
	.byte	0                               ; EOM(2)
	.byte	0                               ; EOM(3)
	.section	.debug_info,"",@progbits
.Lcu_begin0:
	.long	.Ldebug_info_end0-.Ldebug_info_start0 ; Length of Unit
.Ldebug_info_start0:
	.short	4                               ; DWARF version number
	.long	.debug_abbrev                   ; Offset Into Abbrev. Section
	.byte	8                               ; Address Size (in bytes)
	.byte	1                               ; Abbrev [1] 0xb:0x1f DW_TAG_compile_unit
	.long	.Linfo_string0                  ; DW_AT_producer
	.short	2                               ; DW_AT_language
	.long	.Linfo_string1                  ; DW_AT_name
	.long	.Lline_table_start0             ; DW_AT_stmt_list
	.long	.Linfo_string2                  ; DW_AT_comp_dir
	.quad	.Lfunc_begin0                   ; DW_AT_low_pc
	.long	.Lfunc_end0-.Lfunc_begin0       ; DW_AT_high_pc
.Ldebug_info_end0:
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"triton"                        ; string offset=0
.Linfo_string1:
	.asciz	"make.py"                       ; string offset=7
.Linfo_string2:
	.asciz	"/root/sv/wt/hip/tests/gfxsim/tests/triton" ; string offset=15
	.section	".note.GNU-stack","",@progbits
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         24
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         32
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 40
    .max_flat_workgroup_size: 64
    .name:           product
    .private_segment_fixed_size: 0
    .sgpr_count:     18
    .sgpr_spill_count: 0
    .symbol:         product.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     72
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
	.section	.debug_line,"",@progbits
.Lline_table_start0:
