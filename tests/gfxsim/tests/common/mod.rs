//! Small kernels written by hand.
#![allow(dead_code, reason = "each test file uses a part")]

use gfxsim::{Buffer, Fault, Launch, Memory, Program, Report};

/// A kernel `k` of one pointer to inputs (s[4:5]) and one to outputs (s[6:7]), both loaded before the body; the work-item's number is in
/// v0. The body ends the program itself.
pub fn text(arch: &str, lds: usize, body: &str) -> String {
    let directives = "float_denorm_mode_32 3\n.amdhsa_float_denorm_mode_16_64 3\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_user_sgpr_count 2\n\
                      .amdhsa_system_sgpr_workgroup_id_x 1";
    format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"\nk:\ns_load_dwordx4 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n{body}\n\
         .amdhsa_kernel k\n.amdhsa_{directives}\n.end_amdhsa_kernel\n.amdgpu_metadata\namdhsa.kernels:\n  - .agpr_count: 0\n    .args:\n      \
         - .offset: 0\n        .size: 8\n        .value_kind: global_buffer\n      - .offset: 8\n        .size: 8\n        .value_kind: \
         global_buffer\n    .group_segment_fixed_size: {lds}\n    .kernarg_segment_size: 16\n    .name: k\n.end_amdgpu_metadata\n"
    )
}

/// Runs a kernel of `waves` waves on inputs; the report and the outputs, a word a work-item.
pub fn run(text: &str, waves: u32, inputs: &[u32]) -> Result<(Report, Vec<u32>), Fault> {
    let program = Program::parse(text)?;
    let mut memory = Memory::new();
    let bytes: Vec<u8> = inputs.iter().flat_map(|word| word.to_le_bytes()).collect();
    let input = memory.add_read_only("inputs", &bytes);
    let output = memory.reserve("outputs", 256 * waves as usize);
    let report = program.launch(&launch(&kernarg(input, output), waves), &mut memory)?;
    let words = memory.bytes(output).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    Ok((report, words))
}

/// The arguments.
pub fn kernarg(input: Buffer, output: Buffer) -> Vec<u8> {
    [input.address().to_le_bytes(), output.address().to_le_bytes()].concat()
}

/// One workgroup.
pub fn launch(kernarg: &[u8], waves: u32) -> Launch<'_> {
    Launch { kernel: "k", grid: [1, 1, 1], block: [64 * waves, 1, 1], dynamic_lds: 0, kernarg }
}
