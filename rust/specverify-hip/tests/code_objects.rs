//! The code objects themselves: the same bytes wherever they are built, and the text that the simulator runs is their code.

#[path = "../compiler.rs"]
mod compiler;

use std::path::{Path, PathBuf};
use std::{fs, str};

use compiler::{ARCHITECTURES, Compiler, kernel_sources};
use specverify_hip::abi;
use specverify_hip::kernels::{CODE_OBJECTS, architectures};

fn hip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hip")
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn every_source_is_shipped_for_both_architectures() {
    assert_eq!(architectures(), ARCHITECTURES);
    let sources = kernel_sources(&hip()).unwrap();
    assert_eq!(CODE_OBJECTS.len(), sources.len() * ARCHITECTURES.len());
}

#[test]
fn another_folder_gives_the_same_bytes() {
    let (copy, out) = (folder("a folder with another name").join("sources"), folder("out"));
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(hip()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let compiler = Compiler::find(&out).unwrap();
    for object in CODE_OBJECTS {
        let to = out.join(format!("{}.{}", object.source, object.arch));
        compiler.compile(&copy.join(format!("{}.hip", object.source)), object.arch, &[], &to).unwrap();
        assert!(fs::read(&to).unwrap() == object.bytes, "{} for {} differs", object.source, object.arch);
    }
}

/// The bytes of a section of a 64-bit little-endian ELF file.
fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let number = |at: usize, bytes: usize| elf[at..at + bytes].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
    let (headers, size, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let header = |i: usize| headers + i * size;
    let content = |i: usize| &elf[number(header(i) + 24, 8)..][..number(header(i) + 32, 8)];
    (0..count).find_map(|i| {
        let start = &content(names)[number(header(i), 4)..];
        let found = str::from_utf8(&start[..start.iter().position(|&b| b == 0)?]).ok()?;
        (found == name).then(|| content(i))
    })
}

/// What the simulator runs is what ships: code, kernel descriptors and metadata are equal. (Symbol tables differ: the text names its
/// local labels.)
#[test]
fn the_text_assembles_to_the_embedded_bytes() {
    let out = folder("assembled");
    let compiler = Compiler::find(&out).unwrap();
    for object in CODE_OBJECTS {
        let name = format!("{}.{}", object.source, object.arch);
        fs::write(out.join(format!("{name}.s")), object.assembly).unwrap();
        let mut command = compiler.command().unwrap();
        command.current_dir(&out).args(["-x", "assembler", "--target=amdgcn-amd-amdhsa", "-nogpulib"]);
        command.arg(format!("-mcpu={}", object.arch)).arg(format!("{name}.s")).args(["-o", &format!("{name}.elf")]);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let assembled = fs::read(out.join(format!("{name}.elf"))).unwrap();
        for part in [".text", ".rodata", ".note"] {
            let (one, two) = (section(&assembled, part), section(object.bytes, part));
            assert!(one.is_some_and(|bytes| !bytes.is_empty()) && one == two, "{part} of {name} differs");
        }
    }
}

#[test]
fn arguments_have_the_size_that_the_compiler_says() {
    let sizes: &[(&str, usize)] = &[
        ("tree_walk", size_of::<abi::TreeWalkArgs>()),
        ("kv_compact", size_of::<abi::KvCompactArgs>()),
        ("kv_move", size_of::<abi::KvMoveArgs>()),
        ("tree_attention", size_of::<abi::TreeAttentionArgs>()),
        ("row_", size_of::<abi::LogitRowsArgs>()),
        ("target_", size_of::<abi::TargetTokensArgs>()),
        ("coupled_children", size_of::<abi::CoupledChildrenArgs>()),
        ("mla_tree_attention", size_of::<abi::MlaTreeAttentionArgs>()),
    ];
    for object in CODE_OBJECTS {
        let program = gfxsim::Program::parse(object.assembly).unwrap();
        assert!(program.kernels().count() > 0);
        for kernel in program.kernels() {
            let (_, size) =
                sizes.iter().find(|(name, _)| kernel.starts_with(name)).unwrap_or_else(|| panic!("{kernel}"));
            let arguments = &program.metadata(kernel).unwrap().arguments;
            assert_eq!(arguments, &[(0, *size as u32)], "{kernel}");
        }
    }
}

/// The simulator knows every instruction that ships, whether inputs reach it or not.
#[test]
fn no_instruction_is_unknown() {
    for object in CODE_OBJECTS {
        let program = gfxsim::Program::parse(object.assembly).unwrap();
        assert_eq!(program.unknown().next(), None, "{} for {}", object.source, object.arch);
    }
}

/// No spills, no scratch, LDS of one workgroup within gfx942's 64 KiB, at least two waves a SIMD.
#[test]
fn no_kernel_spills_or_starves() {
    for object in CODE_OBJECTS {
        let program = gfxsim::Program::parse(object.assembly).unwrap();
        for kernel in program.kernels() {
            let metadata = program.metadata(kernel).unwrap();
            let told = format!("{kernel} for {}: {metadata:?}", object.arch);
            assert_eq!((metadata.vgpr_spills, metadata.sgpr_spills, metadata.scratch), (0, 0, 0), "{told}");
            assert!(metadata.lds <= 65_536 && metadata.occupancy >= 2, "{told}");
        }
    }
}
