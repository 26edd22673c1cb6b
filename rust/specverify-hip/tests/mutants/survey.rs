//! Leaves out each wait and each barrier of a kernel in turn, and sees who notices.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gfxsim::{Fault, Hazard, Program, Redundant};

use crate::common::program;

/// Runs the kernel of a program on some inputs. What it returns is compared, byte for byte, with the same of the kernel as it is.
pub type Case = Box<dyn Fn(&Program) -> Result<Vec<u8>, Fault>>;

/// What the mutants of a kernel run on.
#[derive(Clone, Copy)]
pub enum Inputs {
    /// All of it at once, for the kernel of that name.
    One(fn(&Program, &str) -> Result<Vec<u8>, Fault>),
    /// Cases for an architecture and a kernel. A mutant runs until one of them catches it.
    Many(fn(&'static str, &str) -> Vec<Case>),
}

impl Inputs {
    fn cases(self, arch: &'static str, kernel: &'static str) -> Vec<Case> {
        match self {
            Self::One(run) => vec![Box::new(move |program| run(program, kernel))],
            Self::Many(cases) => cases(arch, kernel),
        }
    }
}

/// A kernel for one architecture.
#[derive(Clone, Copy)]
pub struct Subject {
    pub source: &'static str,
    pub arch: &'static str,
    pub kernel: &'static str,
    pub inputs: Inputs,
}

/// A mutant that passes.
pub struct Survivor {
    /// Line of the assembly text.
    pub line: usize,
    pub instruction: &'static str,
    /// What keeps it from being proved redundant: what goes wrong on paths that no input takes.
    pub hazards: Vec<Hazard>,
}

/// What became of the mutants of a kernel.
pub struct Survey {
    pub subject: Subject,
    pub mutants: usize,
    pub caught: usize,
    pub redundant: Vec<(Survivor, Redundant)>,
    pub survivors: Vec<Survivor>,
    seconds: f64,
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { arch, kernel, .. } = self.subject;
        write!(
            f,
            "{arch} {kernel:36} {:4} mutants {:4} caught {:3} redundant {:3} survive {:6.1} s",
            self.mutants,
            self.caught,
            self.redundant.len(),
            self.survivors.len(),
            self.seconds
        )?;
        for (Survivor { line, instruction, .. }, why) in &self.redundant {
            write!(f, "\n    line {line}: {instruction}: redundant: {why}")?;
        }
        for Survivor { line, instruction, hazards } in &self.survivors {
            write!(f, "\n    line {line}: {instruction}: SURVIVES; a path on which it is needed:")?;
            match hazards[..] {
                [Hazard::Register { line, load }, ..] => {
                    write!(f, " from the load of line {load} to its use in line {line}")?
                }
                [Hazard::Barrier { line, access }, ..] => {
                    write!(f, " from line {access} to the barrier of line {line}")?
                }
                [] => write!(f, " none that the dataflow knows")?,
            }
        }
        Ok(())
    }
}

fn survey(subject: Subject) -> Survey {
    let start = Instant::now();
    let Subject { source, arch, kernel, inputs } = subject;
    let program = program(source, arch);
    let result = |case: Case| {
        let expected = case(program).unwrap_or_else(|fault| panic!("{arch} {kernel}: {fault}"));
        (case, expected)
    };
    let cases: Vec<_> = inputs.cases(arch, kernel).into_iter().map(result).collect();
    assert!(!cases.is_empty(), "{arch} {kernel}");
    let lines: Vec<_> = program
        .mnemonics(kernel)
        .unwrap()
        .filter(|(mnemonic, _)| ["s_waitcnt", "s_barrier"].contains(mnemonic))
        .map(|(_, line)| line)
        .collect();
    let mut found =
        Survey { subject, mutants: lines.len(), caught: 0, redundant: vec![], survivors: vec![], seconds: 0.0 };
    for line in lines {
        let mutant = program.without(line).unwrap();
        if cases.iter().any(|(case, expected)| case(&mutant).as_ref() != Ok(expected)) {
            found.caught += 1;
            continue;
        }
        let instruction = crate::common::assembly(source, arch).lines().nth(line - 1).unwrap().trim();
        let hazards = mutant.hazards(kernel).unwrap().into_iter().collect();
        let survivor = Survivor { line, instruction, hazards };
        match program.redundant(kernel, line).unwrap() {
            Some(why) => found.redundant.push((survivor, why)),
            None => found.survivors.push(survivor),
        }
    }
    found.seconds = start.elapsed().as_secs_f64();
    found
}

/// All subjects, on all cores; `done` hears of each as it ends.
pub fn survey_all(subjects: &[Subject], done: impl Fn(usize, &Survey) + Sync) -> Vec<Survey> {
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        let mut surveys = Vec::new();
        while let Some(&subject) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let survey = survey(subject);
            done(ended.fetch_add(1, Ordering::Relaxed) + 1, &survey);
            surveys.push(survey);
        }
        surveys
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// At least 97 % of the mutants that are not proved redundant are caught.
pub fn check(surveys: &[Survey]) {
    let sum = |count: fn(&Survey) -> usize| surveys.iter().map(count).sum::<usize>();
    let (mutants, caught) = (sum(|s| s.mutants), sum(|s| s.caught));
    let redundant = sum(|s| s.redundant.len());
    let share = caught as f64 / (mutants - redundant) as f64;
    eprintln!(
        "{mutants} mutants: {caught} caught, {redundant} proved redundant, {} survive",
        mutants - caught - redundant
    );
    eprintln!("{:.2} % of those not proved redundant are caught", 100.0 * share);
    assert!(share >= 0.97, "{share}");
}
