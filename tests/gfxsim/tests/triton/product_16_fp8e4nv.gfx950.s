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
	v_and_b32_e32 v6, 48, v0
	v_mov_b32_e32 v7, 0
	v_and_b32_e32 v2, 15, v0
	v_lshl_add_u64 v[4:5], s[4:5], 0, v[6:7]
	v_mov_b32_e32 v3, v7
	global_load_ubyte v10, v0, s[2:3]
	global_load_ubyte v11, v0, s[2:3] offset:64
	global_load_ubyte v12, v0, s[2:3] offset:128
	global_load_ubyte v13, v0, s[2:3] offset:192
	global_load_ubyte v14, v0, s[2:3] offset:256
	global_load_ubyte v15, v0, s[2:3] offset:320
	global_load_ubyte v16, v0, s[2:3] offset:384
	global_load_ubyte v17, v0, s[2:3] offset:448
	global_load_ubyte v18, v0, s[2:3] offset:512
	global_load_ubyte v19, v0, s[2:3] offset:576
	global_load_ubyte v20, v0, s[2:3] offset:640
	global_load_ubyte v21, v0, s[2:3] offset:704
	global_load_ubyte v22, v0, s[2:3] offset:768
	global_load_ubyte v23, v0, s[2:3] offset:832
	global_load_ubyte v24, v0, s[2:3] offset:896
	global_load_ubyte v25, v0, s[2:3] offset:960
	v_lshl_add_u64 v[4:5], v[4:5], 0, v[2:3]
	global_load_ubyte v26, v[4:5], off
	global_load_ubyte v27, v[4:5], off offset:64
	global_load_ubyte v28, v[4:5], off offset:128
	global_load_ubyte v29, v[4:5], off offset:192
	global_load_ubyte v30, v[4:5], off offset:256
	global_load_ubyte v31, v[4:5], off offset:320
	global_load_ubyte v32, v[4:5], off offset:384
	global_load_ubyte v33, v[4:5], off offset:448
	global_load_ubyte v34, v[4:5], off offset:512
	global_load_ubyte v35, v[4:5], off offset:576
	global_load_ubyte v36, v[4:5], off offset:640
	global_load_ubyte v37, v[4:5], off offset:704
	global_load_ubyte v38, v[4:5], off offset:768
	global_load_ubyte v39, v[4:5], off offset:832
	global_load_ubyte v40, v[4:5], off offset:896
	global_load_ubyte v41, v[4:5], off offset:960
	v_lshlrev_b32_e32 v9, 1, v0
	v_lshlrev_b32_e32 v8, 6, v2
	v_lshrrev_b32_e32 v2, 1, v6
	v_bitop3_b32 v2, v9, v2, 24 bitop3:0x6c
	v_add_u32_e32 v1, 0, v0
	v_xad_u32 v3, v0, 8, 0
	v_xad_u32 v4, v0, 16, 0
	v_xad_u32 v5, v0, 24, 0
	v_add3_u32 v2, 0, v8, v2
	v_lshl_add_u32 v0, v0, 3, 0
	v_mov_b32_e32 v9, v7
	v_lshl_add_u64 v[8:9], s[6:7], 0, v[8:9]
	v_lshl_add_u64 v[6:7], v[8:9], 0, v[6:7]
	s_waitcnt vmcnt(31)
	ds_write_b8 v1, v10
	s_waitcnt vmcnt(30)
	ds_write_b8 v1, v11 offset:64
	s_waitcnt vmcnt(29)
	ds_write_b8 v1, v12 offset:128
	s_waitcnt vmcnt(28)
	ds_write_b8 v1, v13 offset:192
	s_waitcnt vmcnt(27)
	ds_write_b8 v3, v14 offset:256
	s_waitcnt vmcnt(26)
	ds_write_b8 v3, v15 offset:320
	s_waitcnt vmcnt(25)
	ds_write_b8 v3, v16 offset:384
	s_waitcnt vmcnt(24)
	ds_write_b8 v3, v17 offset:448
	s_waitcnt vmcnt(23)
	ds_write_b8 v4, v18 offset:512
	s_waitcnt vmcnt(22)
	ds_write_b8 v4, v19 offset:576
	s_waitcnt vmcnt(21)
	ds_write_b8 v4, v20 offset:640
	s_waitcnt vmcnt(20)
	ds_write_b8 v4, v21 offset:704
	s_waitcnt vmcnt(19)
	ds_write_b8 v5, v22 offset:768
	s_waitcnt vmcnt(18)
	ds_write_b8 v5, v23 offset:832
	s_waitcnt vmcnt(17)
	ds_write_b8 v5, v24 offset:896
	s_waitcnt vmcnt(16)
	ds_write_b8 v5, v25 offset:960
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read2_b64 v[2:5], v2 offset1:4
	s_waitcnt vmcnt(15) lgkmcnt(0)
	; wave barrier
	ds_write_b8 v1, v26
	s_waitcnt vmcnt(14)
	ds_write_b8 v1, v27 offset:64
	s_waitcnt vmcnt(13)
	ds_write_b8 v1, v28 offset:128
	s_waitcnt vmcnt(12)
	ds_write_b8 v1, v29 offset:192
	s_waitcnt vmcnt(11)
	ds_write_b8 v1, v30 offset:256
	s_waitcnt vmcnt(10)
	ds_write_b8 v1, v31 offset:320
	s_waitcnt vmcnt(9)
	ds_write_b8 v1, v32 offset:384
	s_waitcnt vmcnt(8)
	ds_write_b8 v1, v33 offset:448
	s_waitcnt vmcnt(7)
	ds_write_b8 v1, v34 offset:512
	s_waitcnt vmcnt(6)
	ds_write_b8 v1, v35 offset:576
	s_waitcnt vmcnt(5)
	ds_write_b8 v1, v36 offset:640
	s_waitcnt vmcnt(4)
	ds_write_b8 v1, v37 offset:704
	s_waitcnt vmcnt(3)
	ds_write_b8 v1, v38 offset:768
	s_waitcnt vmcnt(2)
	ds_write_b8 v1, v39 offset:832
	s_waitcnt vmcnt(1)
	ds_write_b8 v1, v40 offset:896
	s_waitcnt vmcnt(0)
	ds_write_b8 v1, v41 offset:960
	s_waitcnt lgkmcnt(0)
	; wave barrier
	ds_read_b64_tr_b8 v[10:11], v0
	ds_read_b64_tr_b8 v[12:13], v0 offset:512
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[10:11], v[2:3], 0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[12:13], v[4:5], v[0:3]
	s_nop 7
	global_store_dwordx4 v[6:7], v[0:3], off
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
		.amdhsa_next_free_vgpr 42
		.amdhsa_next_free_sgpr 12
		.amdhsa_accum_offset 44
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
	.set product.num_vgpr, 42
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
; codeLenInByte = 1084
; TotalNumSgprs: 18
; NumVgprs: 42
; NumAgprs: 0
; TotalNumVgprs: 42
; ScratchSize: 0
; MemoryBound: 1
; FloatMode: 240
; IeeeMode: 1
; LDSByteSize: 0 bytes/workgroup (compile time only)
; SGPRBlocks: 2
; VGPRBlocks: 5
; NumSGPRsForWavesPerEU: 18
; NumVGPRsForWavesPerEU: 42
; AccumOffset: 44
; Occupancy: 8
; WaveLimiterHint : 1
; COMPUTE_PGM_RSRC2:SCRATCH_EN: 0
; COMPUTE_PGM_RSRC2:USER_SGPR: 12
; COMPUTE_PGM_RSRC2:TRAP_HANDLER: 0
; COMPUTE_PGM_RSRC2:TGID_X_EN: 1
; COMPUTE_PGM_RSRC2:TGID_Y_EN: 0
; COMPUTE_PGM_RSRC2:TGID_Z_EN: 0
; COMPUTE_PGM_RSRC2:TIDIG_COMP_CNT: 0
; COMPUTE_PGM_RSRC3_GFX90A:ACCUM_OFFSET: 10
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
    .vgpr_count:     42
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
