	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
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
	v_lshlrev_b32_e32 v1, 1, v0
	global_load_ushort v41, v1, s[2:3]
	global_load_ushort v42, v1, s[2:3] offset:128
	global_load_ushort v43, v1, s[2:3] offset:2048
	global_load_ushort v44, v1, s[2:3] offset:2176
	global_load_ushort v45, v1, s[2:3] offset:256
	global_load_ushort v46, v1, s[2:3] offset:384
	global_load_ushort v47, v1, s[2:3] offset:2304
	global_load_ushort v48, v1, s[2:3] offset:2432
	global_load_ushort v49, v1, s[2:3] offset:512
	global_load_ushort v50, v1, s[2:3] offset:640
	global_load_ushort v51, v1, s[2:3] offset:2560
	global_load_ushort v52, v1, s[2:3] offset:2688
	global_load_ushort v53, v1, s[2:3] offset:768
	global_load_ushort v54, v1, s[2:3] offset:896
	global_load_ushort v55, v1, s[2:3] offset:2816
	global_load_ushort v56, v1, s[2:3] offset:2944
	global_load_ushort v57, v1, s[2:3] offset:1024
	global_load_ushort v58, v1, s[2:3] offset:1152
	global_load_ushort v59, v1, s[2:3] offset:3072
	global_load_ushort v60, v1, s[2:3] offset:3200
	global_load_ushort v61, v1, s[2:3] offset:1280
	global_load_ushort v62, v1, s[2:3] offset:1408
	global_load_ushort v63, v1, s[2:3] offset:3328
	global_load_ushort v64, v1, s[2:3] offset:3456
	global_load_ushort v65, v1, s[2:3] offset:1536
	global_load_ushort v66, v1, s[2:3] offset:1664
	global_load_ushort v67, v1, s[2:3] offset:1792
	global_load_ushort v68, v1, s[2:3] offset:1920
	global_load_ushort v69, v1, s[2:3] offset:3584
	global_load_ushort v70, v1, s[2:3] offset:3712
	global_load_ushort v71, v1, s[2:3] offset:3840
	global_load_ushort v72, v1, s[2:3] offset:3968
	v_and_b32_e32 v5, 32, v0
	v_mov_b32_e32 v25, 0
	v_and_b32_e32 v4, 31, v0
	v_lshlrev_b32_e32 v24, 1, v5
	v_lshl_add_u64 v[2:3], s[4:5], 0, v[24:25]
	v_lshlrev_b32_e32 v24, 1, v4
	v_lshl_add_u64 v[2:3], v[2:3], 0, v[24:25]
	global_load_ushort v6, v[2:3], off
	global_load_ushort v7, v[2:3], off offset:128
	global_load_ushort v8, v[2:3], off offset:256
	global_load_ushort v9, v[2:3], off offset:384
	global_load_ushort v10, v[2:3], off offset:512
	global_load_ushort v11, v[2:3], off offset:640
	global_load_ushort v12, v[2:3], off offset:768
	global_load_ushort v13, v[2:3], off offset:896
	global_load_ushort v14, v[2:3], off offset:1024
	global_load_ushort v15, v[2:3], off offset:1152
	global_load_ushort v16, v[2:3], off offset:1280
	global_load_ushort v17, v[2:3], off offset:1408
	global_load_ushort v18, v[2:3], off offset:1536
	global_load_ushort v19, v[2:3], off offset:1664
	global_load_ushort v20, v[2:3], off offset:1792
	global_load_ushort v21, v[2:3], off offset:1920
	global_load_ushort v22, v[2:3], off offset:2048
	global_load_ushort v23, v[2:3], off offset:2176
	global_load_ushort v27, v[2:3], off offset:2304
	global_load_ushort v28, v[2:3], off offset:2432
	global_load_ushort v29, v[2:3], off offset:2560
	global_load_ushort v30, v[2:3], off offset:2688
	global_load_ushort v31, v[2:3], off offset:2816
	global_load_ushort v32, v[2:3], off offset:2944
	global_load_ushort v33, v[2:3], off offset:3072
	global_load_ushort v34, v[2:3], off offset:3200
	global_load_ushort v35, v[2:3], off offset:3328
	global_load_ushort v36, v[2:3], off offset:3456
	global_load_ushort v37, v[2:3], off offset:3584
	global_load_ushort v38, v[2:3], off offset:3712
	global_load_ushort v39, v[2:3], off offset:3840
	global_load_ushort v40, v[2:3], off offset:3968
	v_add_u32_e32 v2, 0, v1
	v_lshrrev_b32_e32 v26, 1, v5
	s_movk_i32 s1, 0x70
	v_lshlrev_b32_e32 v24, 7, v4
	s_movk_i32 s0, 0x60
	v_cmp_eq_u32_e32 vcc, 0, v5
	s_waitcnt vmcnt(62)
	ds_write_b16 v2, v41
	ds_write_b16 v2, v42 offset:128
	s_waitcnt vmcnt(61)
	ds_write_b16 v2, v43 offset:2048
	s_waitcnt vmcnt(60)
	ds_write_b16 v2, v44 offset:2176
	v_xad_u32 v2, v1, 16, 0
	s_waitcnt vmcnt(59)
	ds_write_b16 v2, v45 offset:256
	s_waitcnt vmcnt(58)
	ds_write_b16 v2, v46 offset:384
	s_waitcnt vmcnt(57)
	ds_write_b16 v2, v47 offset:2304
	s_waitcnt vmcnt(56)
	ds_write_b16 v2, v48 offset:2432
	v_xad_u32 v2, v1, 32, 0
	s_waitcnt vmcnt(55)
	ds_write_b16 v2, v49 offset:512
	s_waitcnt vmcnt(54)
	ds_write_b16 v2, v50 offset:640
	s_waitcnt vmcnt(53)
	ds_write_b16 v2, v51 offset:2560
	s_waitcnt vmcnt(52)
	ds_write_b16 v2, v52 offset:2688
	v_xad_u32 v2, v1, 48, 0
	s_waitcnt vmcnt(51)
	ds_write_b16 v2, v53 offset:768
	s_waitcnt vmcnt(50)
	ds_write_b16 v2, v54 offset:896
	s_waitcnt vmcnt(49)
	ds_write_b16 v2, v55 offset:2816
	s_waitcnt vmcnt(48)
	ds_write_b16 v2, v56 offset:2944
	v_xad_u32 v2, v1, 64, 0
	s_waitcnt vmcnt(47)
	ds_write_b16 v2, v57 offset:1024
	s_waitcnt vmcnt(46)
	ds_write_b16 v2, v58 offset:1152
	s_waitcnt vmcnt(45)
	ds_write_b16 v2, v59 offset:3072
	s_waitcnt vmcnt(44)
	ds_write_b16 v2, v60 offset:3200
	v_xor_b32_e32 v2, 0x50, v1
	v_add_u32_e32 v2, 0, v2
	s_waitcnt vmcnt(43)
	ds_write_b16 v2, v61 offset:1280
	s_waitcnt vmcnt(42)
	ds_write_b16 v2, v62 offset:1408
	s_waitcnt vmcnt(41)
	ds_write_b16 v2, v63 offset:3328
	s_waitcnt vmcnt(40)
	ds_write_b16 v2, v64 offset:3456
	v_xor_b32_e32 v2, 0x60, v1
	v_xor_b32_e32 v1, 0x70, v1
	v_add_u32_e32 v1, 0, v1
	v_add_u32_e32 v2, 0, v2
	s_waitcnt vmcnt(37)
	ds_write_b16 v1, v67 offset:1792
	s_waitcnt vmcnt(36)
	ds_write_b16 v1, v68 offset:1920
	s_waitcnt vmcnt(33)
	ds_write_b16 v1, v71 offset:3840
	s_waitcnt vmcnt(32)
	ds_write_b16 v1, v72 offset:3968
	v_lshlrev_b32_e32 v1, 3, v0
	ds_write_b16 v2, v65 offset:1536
	ds_write_b16 v2, v66 offset:1664
	ds_write_b16 v2, v69 offset:3584
	ds_write_b16 v2, v70 offset:3712
	v_and_b32_e32 v2, 0x70, v1
	v_bitop3_b32 v1, v1, v26, s1 bitop3:0x6c
	v_bitop3_b32 v2, v2, v24, v26 bitop3:0xde
	v_bitop3_b32 v1, v1, s0, v24 bitop3:0x36
	v_add_u32_e32 v3, 0, v2
	v_xad_u32 v4, v2, 32, 0
	v_xad_u32 v2, v2, 64, 0
	v_add_u32_e32 v1, 0, v1
	s_mov_b32 s0, 0x5040100
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read_b128 v[42:45], v3
	ds_read_b128 v[46:49], v4
	ds_read_b128 v[50:53], v2
	ds_read_b128 v[54:57], v1
	s_waitcnt vmcnt(30)
	v_perm_b32 v1, v7, v6, s0
	s_waitcnt vmcnt(26)
	v_perm_b32 v2, v11, v10, s0
	v_perm_b32 v3, v9, v8, s0
	s_waitcnt vmcnt(24)
	v_perm_b32 v4, v13, v12, s0
	s_waitcnt vmcnt(22)
	v_perm_b32 v6, v15, v14, s0
	s_waitcnt vmcnt(18)
	v_perm_b32 v7, v19, v18, s0
	v_lshlrev_b32_e32 v0, 2, v0
	s_waitcnt vmcnt(12)
	v_perm_b32 v12, v28, v27, s0
	s_waitcnt vmcnt(6)
	v_perm_b32 v27, v34, v33, s0
	v_cndmask_b32_e32 v5, v2, v1, vcc
	v_cndmask_b32_e32 v1, v1, v2, vcc
	v_cndmask_b32_e32 v2, v4, v3, vcc
	v_cndmask_b32_e32 v3, v3, v4, vcc
	v_cndmask_b32_e32 v4, v6, v7, vcc
	v_xor_b32_e32 v34, 0x80, v0
	v_perm_b32 v8, v17, v16, s0
	v_perm_b32 v9, v21, v20, s0
	v_perm_b32 v10, v23, v22, s0
	ds_bpermute_b32 v0, v34, v1
	ds_bpermute_b32 v1, v34, v3
	ds_bpermute_b32 v22, v34, v4
	v_mov_b32_e32 v3, 0x1054
	v_mov_b32_e32 v4, 0x5410
	v_cndmask_b32_e32 v21, v7, v6, vcc
	v_cndmask_b32_e32 v23, v9, v8, vcc
	v_cndmask_b32_e32 v6, v8, v9, vcc
	v_cndmask_b32_e32 v3, v3, v4, vcc
	v_mov_b32_e32 v4, 0x3276
	v_mov_b32_e32 v8, 0x7632
	v_perm_b32 v11, v30, v29, s0
	v_perm_b32 v13, v32, v31, s0
	s_waitcnt vmcnt(2)
	v_perm_b32 v28, v38, v37, s0
	v_perm_b32 v29, v36, v35, s0
	s_waitcnt vmcnt(0)
	v_perm_b32 v30, v40, v39, s0
	v_cndmask_b32_e32 v4, v4, v8, vcc
	v_lshlrev_b32_e32 v8, 8, v3
	s_mov_b32 s0, 0x540054
	v_bitop3_b32 v3, v8, s0, v3 bitop3:0xc8
	v_lshlrev_b32_e32 v8, 4, v3
	s_mov_b32 s0, 0x5040504
	v_bitop3_b32 v35, v8, s0, v3 bitop3:0xc8
	v_lshlrev_b32_e32 v3, 8, v4
	s_mov_b32 s0, 0x760076
	v_bitop3_b32 v3, v3, s0, v4 bitop3:0xc8
	v_lshlrev_b32_e32 v4, 4, v3
	s_mov_b32 s0, 0x7060706
	v_bitop3_b32 v36, v4, s0, v3 bitop3:0xc8
	s_waitcnt lgkmcnt(2)
	v_perm_b32 v16, v0, v5, v35
	v_perm_b32 v17, v0, v5, v36
	s_waitcnt lgkmcnt(1)
	v_perm_b32 v18, v1, v2, v35
	v_perm_b32 v19, v1, v2, v36
	ds_bpermute_b32 v38, v34, v6
	v_cndmask_b32_e32 v7, v10, v11, vcc
	v_cndmask_b32_e32 v31, v11, v10, vcc
	v_cndmask_b32_e32 v32, v13, v12, vcc
	v_cndmask_b32_e32 v33, v12, v13, vcc
	ds_bpermute_b32 v39, v34, v7
	v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[42:45], 0
	s_waitcnt lgkmcnt(2)
	v_perm_b32 v20, v22, v21, v35
	v_perm_b32 v21, v22, v21, v36
	s_waitcnt lgkmcnt(1)
	v_perm_b32 v22, v38, v23, v35
	v_perm_b32 v23, v38, v23, v36
	ds_bpermute_b32 v19, v34, v33
	v_cndmask_b32_e32 v16, v27, v28, vcc
	v_cndmask_b32_e32 v37, v28, v27, vcc
	v_mfma_f32_32x32x16_bf16 v[0:15], v[20:23], v[46:49], v[0:15]
	ds_bpermute_b32 v27, v34, v16
	s_waitcnt lgkmcnt(2)
	v_perm_b32 v16, v39, v31, v35
	v_perm_b32 v17, v39, v31, v36
	s_waitcnt lgkmcnt(1)
	v_perm_b32 v18, v19, v32, v35
	v_perm_b32 v19, v19, v32, v36
	v_cndmask_b32_e32 v20, v29, v30, vcc
	ds_bpermute_b32 v23, v34, v20
	v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[50:53], v[0:15]
	v_cndmask_b32_e32 v28, v30, v29, vcc
	s_waitcnt lgkmcnt(1)
	v_perm_b32 v20, v27, v37, v35
	v_perm_b32 v21, v27, v37, v36
	s_waitcnt lgkmcnt(0)
	v_perm_b32 v22, v23, v28, v35
	v_perm_b32 v23, v23, v28, v36
	v_lshl_add_u64 v[16:17], s[6:7], 0, v[24:25]
	v_mov_b32_e32 v27, v25
	v_mfma_f32_32x32x16_bf16 v[0:15], v[20:23], v[54:57], v[0:15]
	v_lshl_add_u64 v[16:17], v[16:17], 0, v[26:27]
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
		.amdhsa_next_free_vgpr 73
		.amdhsa_next_free_sgpr 12
		.amdhsa_accum_offset 76
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
	.set product.num_vgpr, 73
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
; codeLenInByte = 2044
; TotalNumSgprs: 18
; NumVgprs: 73
; NumAgprs: 0
; TotalNumVgprs: 73
; ScratchSize: 0
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 2
; VGPRBlocks: 9
; NumSGPRsForWavesPerEU: 18
; NumVGPRsForWavesPerEU: 73
; AccumOffset: 76
; Occupancy: 6
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 12
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
; COMPUTE_PGM_RSRC3_GFX90A:ACCUM_OFFSET: 18
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
    .vgpr_count:     73
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx950
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
	.section	.debug_line,"",@progbits
.Lline_table_start0:
