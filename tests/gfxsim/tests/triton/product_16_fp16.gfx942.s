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
	v_lshlrev_b32_e32 v2, 1, v0
	global_load_ushort v35, v2, s[2:3]
	global_load_ushort v36, v2, s[2:3] offset:128
	global_load_ushort v37, v2, s[2:3] offset:256
	global_load_ushort v38, v2, s[2:3] offset:384
	global_load_ushort v39, v2, s[2:3] offset:512
	global_load_ushort v40, v2, s[2:3] offset:640
	global_load_ushort v41, v2, s[2:3] offset:768
	global_load_ushort v42, v2, s[2:3] offset:896
	global_load_ushort v43, v2, s[2:3] offset:1024
	global_load_ushort v44, v2, s[2:3] offset:1152
	global_load_ushort v45, v2, s[2:3] offset:1280
	global_load_ushort v46, v2, s[2:3] offset:1408
	global_load_ushort v47, v2, s[2:3] offset:1536
	global_load_ushort v48, v2, s[2:3] offset:1664
	global_load_ushort v49, v2, s[2:3] offset:1792
	global_load_ushort v50, v2, s[2:3] offset:1920
	v_and_b32_e32 v6, 48, v0
	v_mov_b32_e32 v5, 0
	v_and_b32_e32 v7, 15, v0
	v_lshlrev_b32_e32 v4, 3, v6
	v_lshl_add_u64 v[0:1], s[4:5], 0, v[4:5]
	v_lshlrev_b32_e32 v4, 1, v7
	v_lshl_add_u64 v[0:1], v[0:1], 0, v[4:5]
	global_load_ushort v3, v[0:1], off
	global_load_ushort v4, v[0:1], off offset:32
	global_load_ushort v8, v[0:1], off offset:64
	global_load_ushort v9, v[0:1], off offset:96
	global_load_ushort v10, v[0:1], off offset:512
	global_load_ushort v11, v[0:1], off offset:544
	global_load_ushort v12, v[0:1], off offset:576
	global_load_ushort v13, v[0:1], off offset:608
	global_load_ushort v14, v[0:1], off offset:1024
	global_load_ushort v15, v[0:1], off offset:1056
	global_load_ushort v16, v[0:1], off offset:1088
	global_load_ushort v17, v[0:1], off offset:1120
	global_load_ushort v18, v[0:1], off offset:1536
	global_load_ushort v19, v[0:1], off offset:1600
	global_load_ushort v20, v[0:1], off offset:1632
	global_load_ushort v21, v[0:1], off offset:1568
	v_add_u32_e32 v0, 0, v2
	v_xad_u32 v1, v2, 8, 0
	v_xad_u32 v22, v2, 16, 0
	v_xad_u32 v23, v2, 24, 0
	v_xad_u32 v24, v2, 32, 0
	v_xad_u32 v25, v2, 40, 0
	v_xad_u32 v26, v2, 48, 0
	v_xad_u32 v27, v2, 56, 0
	v_xad_u32 v28, v2, 64, 0
	v_xor_b32_e32 v29, 0x48, v2
	v_xor_b32_e32 v30, 0x50, v2
	v_xor_b32_e32 v31, 0x58, v2
	v_xor_b32_e32 v32, 0x60, v2
	v_xor_b32_e32 v33, 0x68, v2
	v_xor_b32_e32 v34, 0x70, v2
	v_xor_b32_e32 v2, 0x78, v2
	v_add_u32_e32 v29, 0, v29
	v_add_u32_e32 v30, 0, v30
	v_add_u32_e32 v31, 0, v31
	v_add_u32_e32 v32, 0, v32
	v_add_u32_e32 v33, 0, v33
	v_add_u32_e32 v34, 0, v34
	v_add_u32_e32 v2, 0, v2
	s_mov_b32 s0, 0x5040100
	s_waitcnt vmcnt(31)
	ds_write_b16 v0, v35
	s_waitcnt vmcnt(30)
	ds_write_b16 v1, v36 offset:128
	s_waitcnt vmcnt(29)
	ds_write_b16 v22, v37 offset:256
	s_waitcnt vmcnt(28)
	ds_write_b16 v23, v38 offset:384
	s_waitcnt vmcnt(27)
	ds_write_b16 v24, v39 offset:512
	s_waitcnt vmcnt(26)
	ds_write_b16 v25, v40 offset:640
	s_waitcnt vmcnt(25)
	ds_write_b16 v26, v41 offset:768
	s_waitcnt vmcnt(24)
	ds_write_b16 v27, v42 offset:896
	s_waitcnt vmcnt(23)
	ds_write_b16 v28, v43 offset:1024
	s_waitcnt vmcnt(22)
	ds_write_b16 v29, v44 offset:1152
	s_waitcnt vmcnt(21)
	ds_write_b16 v30, v45 offset:1280
	s_waitcnt vmcnt(20)
	ds_write_b16 v31, v46 offset:1408
	s_waitcnt vmcnt(19)
	ds_write_b16 v32, v47 offset:1536
	s_waitcnt vmcnt(18)
	ds_write_b16 v33, v48 offset:1664
	s_waitcnt vmcnt(17)
	ds_write_b16 v34, v49 offset:1792
	s_waitcnt vmcnt(16)
	ds_write_b16 v2, v50 offset:1920
	v_lshlrev_b32_e32 v0, 3, v7
	v_lshrrev_b32_e32 v1, 1, v6
	v_xor_b32_e32 v0, v0, v1
	v_lshl_or_b32 v0, v7, 7, v0
	v_add_u32_e32 v2, 0, v0
	v_xad_u32 v22, v0, 32, 0
	v_xad_u32 v23, v0, 64, 0
	v_xor_b32_e32 v0, 0x60, v0
	v_add_u32_e32 v24, 0, v0
	s_waitcnt vmcnt(12)
	v_perm_b32 v1, v9, v8, s0
	v_perm_b32 v0, v4, v3, s0
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read_b64 v[26:27], v2
	ds_read_b64 v[28:29], v22
	ds_read_b64 v[30:31], v23
	ds_read_b64 v[32:33], v24
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_write_b64 v2, v[0:1]
	s_waitcnt vmcnt(8)
	v_perm_b32 v1, v13, v12, s0
	v_perm_b32 v0, v11, v10, s0
	ds_write_b64 v22, v[0:1]
	s_waitcnt vmcnt(4)
	v_perm_b32 v1, v17, v16, s0
	v_perm_b32 v0, v15, v14, s0
	ds_write_b64 v23, v[0:1]
	s_waitcnt vmcnt(1)
	v_perm_b32 v1, v20, v19, s0
	s_waitcnt vmcnt(0)
	v_perm_b32 v0, v21, v18, s0
	ds_write_b64 v24, v[0:1]
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read_b64 v[0:1], v2
	ds_read_b64 v[8:9], v22
	ds_read_b64 v[10:11], v23
	ds_read_b64 v[12:13], v24
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_16x16x16_f16 v[0:3], v[0:1], v[26:27], 0
	v_lshlrev_b32_e32 v4, 6, v7
	v_mov_b32_e32 v7, v5
	s_waitcnt lgkmcnt(2)
	v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[28:29], v[0:3]
	v_lshl_add_u64 v[8:9], s[6:7], 0, v[4:5]
	v_lshl_add_u64 v[4:5], v[8:9], 0, v[6:7]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_16x16x16_f16 v[0:3], v[10:11], v[30:31], v[0:3]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_16x16x16_f16 v[0:3], v[12:13], v[32:33], v[0:3]
	s_nop 6
	global_store_dwordx4 v[4:5], v[0:3], off
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
		.amdhsa_next_free_vgpr 51
		.amdhsa_next_free_sgpr 12
		.amdhsa_accum_offset 52
		.amdhsa_reserve_vcc 0
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
	.set product.num_vgpr, 51
	.set product.num_agpr, 0
	.set product.numbered_sgpr, 12
	.set product.num_named_barrier, 0
	.set product.private_seg_size, 0
	.set product.uses_vcc, 0
	.set product.uses_flat_scratch, 0
	.set product.has_dyn_sized_stack, 0
	.set product.has_recursion, 0
	.set product.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
; Kernel info:
; codeLenInByte = 1236
; TotalNumSgprs: 18
; NumVgprs: 51
; NumAgprs: 0
; TotalNumVgprs: 51
; ScratchSize: 0
; MemoryBound: 0
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 2
; VGPRBlocks: 6
; NumSGPRsForWavesPerEU: 18
; NumVGPRsForWavesPerEU: 51
; AccumOffset: 52
; Occupancy: 8
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 12
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
; COMPUTE_PGM_RSRC3_GFX90A:ACCUM_OFFSET: 12
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
    .vgpr_count:     51
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
