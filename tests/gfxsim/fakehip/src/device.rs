//! The devices, which share everything: memory, the modules loaded and their kernels.

use std::collections::BTreeMap;
use std::fs;

use gfxsim::{Buffer, Fault, Kind, Launch, Memory, Program};

use crate::Code;
use crate::settings::Settings;

#[derive(Default)]
pub struct Device {
    memory: Memory,
    /// By address.
    buffers: BTreeMap<u64, Buffer>,
    modules: Vec<Program>,
    /// Module and name.
    functions: Vec<(usize, String)>,
}

/// Handles count from here, so that no small number passes for one.
const MODULES: usize = 0x1000;
const FUNCTIONS: usize = 0x2000;

impl Device {
    /// An address.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let name = format!("allocation {}", self.buffers.len());
        let buffer = self.memory.reserve(&name, bytes);
        self.buffers.insert(buffer.address(), buffer);
        buffer.address()
    }

    pub fn free(&mut self, address: u64) -> Result<(), Code> {
        let buffer = self.buffers.remove(&address).ok_or(Code::InvalidValue)?;
        self.memory.free(buffer);
        Ok(())
    }

    /// The buffer that holds a range, and where in it the range starts.
    fn range(&self, address: u64, bytes: usize) -> Result<(Buffer, usize), Code> {
        let (&start, &buffer) = self.buffers.range(..=address).next_back().ok_or(Code::InvalidValue)?;
        let offset = (address - start) as usize;
        if offset + bytes <= buffer.len() { Ok((buffer, offset)) } else { Err(Code::InvalidValue) }
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Code> {
        let (buffer, offset) = self.range(address, bytes.len())?;
        self.memory.write(buffer, offset, bytes);
        Ok(())
    }

    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Code> {
        let (buffer, offset) = self.range(address, out.len())?;
        out.copy_from_slice(&self.memory.bytes(buffer)[offset..offset + out.len()]);
        Ok(())
    }

    /// A handle of the module.
    pub fn load(&mut self, settings: &Settings, arch: &str, image: &[u8]) -> Result<usize, Code> {
        let text = text_of(settings, image)?;
        let program = Program::parse(&text).map_err(|fault| refuse(settings, &fault, Code::InvalidImage))?;
        if arch.split(':').next() != Some(program.arch()) {
            return Err(Code::NoBinaryForGpu);
        }
        self.modules.push(program);
        Ok(MODULES + self.modules.len() - 1)
    }

    /// A handle of the kernel.
    pub fn function(&mut self, module: usize, name: &str) -> Result<usize, Code> {
        let index = module.checked_sub(MODULES).ok_or(Code::InvalidHandle)?;
        let program = self.modules.get(index).ok_or(Code::InvalidHandle)?;
        if !program.kernels().any(|kernel| kernel == name) {
            return Err(Code::NotFound);
        }
        self.functions.push((index, name.to_owned()));
        Ok(FUNCTIONS + self.functions.len() - 1)
    }

    pub fn name(&self, function: usize) -> Result<&str, Code> {
        let index = function.checked_sub(FUNCTIONS).ok_or(Code::InvalidHandle)?;
        self.functions.get(index).map(|(_, name)| name.as_str()).ok_or(Code::InvalidHandle)
    }

    /// Runs a kernel to its end.
    pub fn launch(
        &mut self,
        settings: &Settings,
        function: usize,
        [grid, block]: [[u32; 3]; 2],
        dynamic_lds: u32,
        kernarg: &[u8],
    ) -> Result<(), Code> {
        let kernel = self.name(function)?.to_owned();
        let program = &self.modules[self.functions[function - FUNCTIONS].0];
        let metadata = program.metadata(&kernel).map_err(|fault| refuse(settings, &fault, Code::InvalidHandle))?;
        let items: u64 = block.iter().map(|&items| u64::from(items)).product();
        if grid.contains(&0) || items == 0 || items > u64::from(metadata.max_workgroup) {
            return Err(Code::InvalidConfiguration);
        }
        let launch = Launch { kernel: &kernel, grid, block, dynamic_lds: dynamic_lds as usize, kernarg };
        program.launch(&launch, &mut self.memory).map(|_| ()).map_err(|fault| {
            let code = match fault.kind {
                Kind::OutOfBounds { .. } | Kind::Uninitialised { .. } | Kind::ReadOnly(_) => Code::IllegalAddress,
                _ => Code::LaunchFailure,
            };
            refuse(settings, &fault, code)
        })
    }
}

fn refuse(settings: &Settings, fault: &Fault, code: Code) -> Code {
    eprintln!("fakehip: {fault}");
    settings.log(&format!("fault {fault}"));
    code
}

/// The text that was compiled together with a code object.
fn text_of(settings: &Settings, image: &[u8]) -> Result<String, Code> {
    let search = || -> std::io::Result<Option<String>> {
        let Some(folder) = &settings.code else { return Ok(None) };
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "hsaco") && fs::read(&path)? == image {
                return fs::read_to_string(path.with_extension("s")).map(Some);
            }
        }
        Ok(None)
    };
    match search() {
        Ok(Some(text)) => Ok(text),
        Ok(None) => {
            eprintln!(
                "fakehip: no file of FAKEHIP_CODE ({:?}) is the code object of {} bytes",
                settings.code,
                image.len()
            );
            Err(Code::InvalidImage)
        }
        Err(error) => {
            eprintln!("fakehip: FAKEHIP_CODE ({:?}): {error}", settings.code);
            Err(Code::InvalidImage)
        }
    }
}
