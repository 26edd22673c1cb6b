//! The loader, on a libamdhip64 whose device is the simulator: what it finds, what it answers where it cannot run, what it passes on.

#[path = "../common/mod.rs"]
mod common;

mod alone;
mod arguments;
mod debian;
mod launches;

use std::fs;
use std::os::fd::AsRawFd as _;
use std::sync::Barrier;
use std::thread;

use alone::{alone, log, mapped};
use common::ARCHITECTURES;
use libloading::Library;
use specverify_hip::{Device, Error, HipError, Stream};

fn load(path: &std::path::Path) -> Library {
    // SAFETY: the fake has no initialisers.
    unsafe { Library::new(path) }.unwrap()
}

/// Two runtimes in one process break: the one that torch has loaded is used, whatever its name.
#[test]
fn the_runtime_that_is_loaded_comes_before_the_systems() {
    for name in ["libamdhip64.so", "libamdhip64.so.6.4.43484", "libamdhip64-0123abcd.so.7"] {
        alone(
            "the_runtime_that_is_loaded_comes_before_the_systems",
            name,
            |stage| {
                stage.runtime("system/libamdhip64.so.7");
                stage.runtime(&format!("a wheel's folder/{name}"));
            },
            |folder| {
                let path = folder.join("a wheel's folder").join(name);
                let _loaded = load(&path);
                let device = Device::open().unwrap();
                assert_eq!(device.runtime(), path.to_str().unwrap());
                assert_eq!(mapped(), [device.runtime()]);
            },
        );
    }
}

#[test]
fn the_systems_newest_runtime_is_loaded_where_none_is() {
    alone(
        "the_systems_newest_runtime_is_loaded_where_none_is",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so.5");
            stage.runtime("system/libamdhip64.so.6");
        },
        |folder| {
            assert_eq!(mapped(), [""; 0]);
            assert_eq!(Device::open().unwrap().runtime(), "libamdhip64.so.6");
            assert_eq!(mapped(), [folder.join("system/libamdhip64.so.6").to_str().unwrap()]);
        },
    );
}

/// A library that somebody reads as a file, a packager for instance, is not one that is loaded.
#[test]
fn a_file_that_is_mapped_is_not_a_runtime_that_is_loaded() {
    alone(
        "a_file_that_is_mapped_is_not_a_runtime_that_is_loaded",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so.6");
            stage.runtime("other/libamdhip64.so");
        },
        |folder| {
            let file = fs::File::open(folder.join("other/libamdhip64.so")).unwrap();
            // SAFETY: a private mapping of an open file, which nobody reads.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
            };
            assert_ne!(at, libc::MAP_FAILED);
            assert!(mapped()[0].contains("other"));
            assert_eq!(Device::open().unwrap().runtime(), "libamdhip64.so.6");
        },
    );
}

#[test]
fn no_runtime_is_an_answer_until_there_is_one() {
    alone(
        "no_runtime_is_an_answer_until_there_is_one",
        "",
        |stage| {
            stage.runtime("later/libamdhip64.so");
        },
        |folder| {
            if !matches!(Device::open(), Err(Error::NoRuntime { .. })) {
                eprintln!("not run: this machine has a HIP runtime; that there may be none can't be tested");
                return;
            }
            assert_eq!(
                Device::open().unwrap_err().to_string(),
                "no HIP runtime: libamdhip64 is neither loaded nor installed (tried libamdhip64.so.7, libamdhip64.so.6, \
                 libamdhip64.so.5, libamdhip64.so)"
            );
            // torch is imported.
            let _loaded = load(&folder.join("later/libamdhip64.so"));
            assert_eq!(Device::open().unwrap().arch(), "gfx942");
        },
    );
}

#[test]
fn no_gpu_is_an_answer() {
    // ROCm 5 answers hipInit with 101, later ones with 100.
    for fail in [
        "hipInit=100",
        "hipInit=101",
        "hipInit=0;hipGetDeviceCount=100",
        "hipInit=0;hipGetDeviceCount=101",
        "hipInit=0;hipGetDeviceCount=0",
        "",
    ] {
        alone(
            "no_gpu_is_an_answer",
            fail,
            |stage| {
                stage.runtime("system/libamdhip64.so");
                stage.set("FAKEHIP_ARCH", "none");
                stage.set("FAKEHIP_FAIL", fail);
            },
            |_| {
                let error = Device::open().unwrap_err();
                assert_eq!(error, Error::NoGpu { library: "libamdhip64.so".into() });
                assert_eq!(error.to_string(), "no GPU: the HIP runtime libamdhip64.so finds no device");
            },
        );
    }
}

#[test]
fn an_architecture_that_is_not_shipped_is_an_answer() {
    for (name, found) in [("gfx90a:sramecc+:xnack-", "gfx90a"), ("gfx1100", "gfx1100"), ("gfx94", "gfx94"), ("", "")] {
        alone(
            "an_architecture_that_is_not_shipped_is_an_answer",
            name,
            |stage| {
                stage.runtime("system/libamdhip64.so");
                stage.set("FAKEHIP_ARCH", name);
            },
            |_| {
                let error = Device::open().unwrap_err();
                assert_eq!(
                    error,
                    Error::ArchitectureNotShipped { found: found.into(), shipped: ARCHITECTURES.to_vec() }
                );
                let text = format!("architecture {found} is not shipped; this build has gfx942, gfx950");
                assert_eq!(error.to_string(), text);
            },
        );
    }
}

/// hipGetDevicePropertiesR0600 came with ROCm 6, and with another struct.
#[test]
fn the_architecture_is_read_from_either_struct_and_without_its_features() {
    for (name, arch) in [
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("gfx942", "gfx942"),
        ("gfx950:sramecc+:xnack-", "gfx950"),
        ("gfx950:xnack+", "gfx950"),
    ] {
        for (case, missing) in [("new", &[][..]), ("old", &["hipGetDevicePropertiesR0600"])] {
            alone(
                "the_architecture_is_read_from_either_struct_and_without_its_features",
                &format!("{name} {case}"),
                |stage| {
                    stage.runtime_without("system/libamdhip64.so", missing);
                    stage.set("FAKEHIP_ARCH", name);
                },
                |folder| {
                    assert_eq!(Device::open().unwrap().arch(), arch);
                    let asked =
                        if missing.is_empty() { "hipGetDevicePropertiesR0600" } else { "hipGetDeviceProperties" };
                    assert_eq!(log(folder), ["hipInit", "hipGetDeviceCount", "hipGetDevice", asked]);
                },
            );
        }
    }
}

/// A process may have chosen another GPU than the first.
#[test]
fn the_current_gpu_is_opened() {
    alone(
        "the_current_gpu_is_opened",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so");
            stage.set("FAKEHIP_ARCH", "gfx90a:sramecc+:xnack-,gfx942:sramecc+:xnack-,gfx950:sramecc+:xnack-");
        },
        |folder| {
            let runtime = load(&folder.join("system/libamdhip64.so"));
            for (device, arch) in [(2, "gfx950"), (1, "gfx942")] {
                // SAFETY: the type of hipSetDevice.
                let code = unsafe { runtime.get::<extern "C" fn(i32) -> i32>(b"hipSetDevice").unwrap()(device) };
                assert_eq!(code, 0);
                let device = Device::open().unwrap();
                assert_eq!(device.arch(), arch);
                device.function("tree_walk", "tree_walk").unwrap();
            }
        },
    );
}

#[test]
fn a_runtime_that_lacks_a_function_is_named_with_it() {
    for symbols in [
        &["hipInit"][..],
        &["hipGetDeviceCount"],
        &["hipGetDevice"],
        &["hipGetDeviceProperties", "hipGetDevicePropertiesR0600"],
        &["hipModuleLoadData"],
        &["hipModuleGetFunction"],
        &["hipModuleLaunchKernel"],
    ] {
        alone(
            "a_runtime_that_lacks_a_function_is_named_with_it",
            symbols[0],
            |stage| stage.runtime_without("system/libamdhip64.so.7", symbols),
            |_| {
                let error = Device::open().unwrap_err();
                assert_eq!(error, Error::MissingSymbol { library: "libamdhip64.so.7".into(), symbol: symbols[0] });
                assert_eq!(error.to_string(), format!("libamdhip64.so.7 has no {}", symbols[0]));
            },
        );
    }
}

/// All of HIP 7.2, and numbers that it does not have.
#[test]
fn every_error_of_the_runtime_gets_its_name() {
    let codes: Vec<i32> = HipError::NAMED.iter().map(|error| error.code()).chain([11, 12_345, -1]).collect();
    assert!(codes.len() > 70);
    alone(
        "every_error_of_the_runtime_gets_its_name",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so");
            let codes: Vec<_> = codes.iter().map(i32::to_string).collect();
            stage.set("FAKEHIP_FAIL", format!("hipModuleLoadData={}", codes.join(",")));
        },
        |_| {
            let device = Device::open().unwrap();
            for &code in &codes {
                let error = device.function("tree_walk", "tree_walk").unwrap_err();
                let Error::Hip { call: "hipModuleLoadData", error: found } = error else { panic!("{error:?}") };
                let named = HipError::NAMED.contains(&found);
                assert_eq!((found.code(), found == HipError::Unlisted(code)), (code, !named));
                assert_eq!(error.to_string(), format!("hipModuleLoadData failed: {} ({code})", found.name()));
                assert!(found.name().starts_with(if named { "hipError" } else { "an error that HIP" }));
            }
            // The answers are used up: a failure is not kept.
            device.function("tree_walk", "tree_walk").unwrap();
        },
    );
    let names = [
        (1, HipError::InvalidValue, "hipErrorInvalidValue"),
        (2, HipError::OutOfMemory, "hipErrorOutOfMemory"),
        (209, HipError::NoBinaryForGpu, "hipErrorNoBinaryForGpu"),
        (700, HipError::IllegalAddress, "hipErrorIllegalAddress"),
        (999, HipError::Unknown, "hipErrorUnknown"),
    ];
    for (code, error, name) in names {
        assert_eq!((HipError::from_code(code), error.name()), (error, name));
    }
}

#[test]
fn an_error_names_the_call_that_gave_it() {
    for call in [
        "hipInit",
        "hipGetDeviceCount",
        "hipGetDevice",
        "hipGetDevicePropertiesR0600",
        "hipModuleLoadData",
        "hipModuleGetFunction",
        "hipModuleLaunchKernel",
    ] {
        alone(
            "an_error_names_the_call_that_gave_it",
            call,
            |stage| {
                stage.runtime("system/libamdhip64.so");
                // 101 means "no GPU" only while a device is looked for.
                let code = if call.starts_with("hipModule") { 101 } else { 2 };
                stage.set("FAKEHIP_FAIL", format!("{call}={code}"));
            },
            |_| {
                let run = || {
                    let device = Device::open()?;
                    let (arguments, plan) = launches::empty_walk();
                    // SAFETY: the fake answers before it runs anything, or runs a walk of no nodes.
                    unsafe { plan.launch(&device, Stream::default(), &arguments) }
                };
                let Err(Error::Hip { call: named, error }) = run() else { panic!("no failure") };
                assert!(call.starts_with(named), "{named}");
                let expected =
                    if call.starts_with("hipModule") { HipError::InvalidDevice } else { HipError::OutOfMemory };
                assert_eq!(error, expected);
            },
        );
    }
}

#[test]
fn a_kernel_that_is_not_shipped_is_named() {
    alone(
        "a_kernel_that_is_not_shipped_is_named",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so");
        },
        |_| {
            let device = Device::open().unwrap();
            let of = |source: &str, kernel: &str| device.function(source, kernel).unwrap_err();
            assert_eq!(of("tree_run", "tree_run").to_string(), "kernel tree_run/tree_run is not shipped");
            assert_eq!(of("tree_walk", "tree\0walk"), Error::UnknownKernel("tree_walk/tree\0walk".into()));
            let error = HipError::NotFound;
            assert_eq!(of("tree_walk", "tree_run"), Error::Hip { call: "hipModuleGetFunction", error });
        },
    );
}

/// Eight threads open the device at once, then share one and launch on it.
#[test]
fn threads_may_open_and_share_a_device() {
    alone(
        "threads_may_open_and_share_a_device",
        "",
        |stage| {
            stage.runtime("system/libamdhip64.so");
        },
        |folder| {
            let barrier = Barrier::new(8);
            let open = || {
                barrier.wait();
                Device::open().unwrap()
            };
            let devices: Vec<Device> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(mapped().len(), 1);
            let outcomes = launches::walks_at_once(&devices[0], &barrier);
            assert!(outcomes.iter().all(|outcome| outcome == &outcomes[0]));
            assert_eq!(outcomes[0], launches::walk_directly(devices[0].arch()));
            let count = |start: &str| log(folder).iter().filter(|line| line.starts_with(start)).count();
            assert_eq!((count("hipModuleLoadData"), count("hipModuleGetFunction")), (1, 1));
            assert_eq!(count("launch tree_walk"), 8);
        },
    );
}
