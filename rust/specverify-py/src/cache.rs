//! `compaction_plan`.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyRange;
use specverify::Error;
use specverify::cache::{Slots, Step};

use crate::args::{integer, integers, items, optional, refuse};
use crate::errors::{OrRaise, exception};
use crate::tree::DraftTree;

/// What to do with the KV cache after a step, for a batch.
#[pyclass(frozen, eq, module = "specverify")]
#[derive(PartialEq)]
pub struct CompactionPlan(specverify::cache::CompactionPlan);

#[pymethods]
impl CompactionPlan {
    /// int64 array [moves, 2]: (source, destination) physical slots.
    ///
    /// To be done in every layer, one after another in this order; a copy of all at once must read all before it writes any.
    #[getter]
    fn moves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let flat: Vec<i64> = self.0.moves.iter().flat_map(|&(from, to)| [from as i64, to as i64]).collect();
        PyArray1::from_vec(py, flat).reshape([self.0.moves.len(), 2])
    }

    /// Tokens of each request that the cache holds from now on.
    #[getter]
    fn kept(&self) -> Vec<u64> {
        self.0.kept.clone()
    }

    /// Places in each request's `pages` (slots, where slots are linear) that held only rejected nodes.
    #[getter]
    fn freed<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyRange>>> {
        self.0.freed.iter().map(|range| PyRange::new(py, range.start as isize, range.end as isize)).collect()
    }

    fn __repr__(&self) -> String {
        let freed: Vec<_> = self.0.freed.iter().map(|range| format!("range({}, {})", range.start, range.end)).collect();
        format!("CompactionPlan(moves={:?}, kept={:?}, freed=[{}])", self.0.moves, self.0.kept, freed.join(", "))
    }
}

/// Slots are int64 in every framework's index tensors.
const SLOT: &str = "an int in [0, 2^63)";

fn slot(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    integer::<i64>(name, value, SLOT)?.try_into().map_err(|_| refuse(name, value, SLOT))
}

fn check_count(py: Python<'_>, name: &str, found: usize, trees: usize) -> PyResult<()> {
    match found == trees {
        true => Ok(()),
        false => Err(exception(py, &Error::shape(name, found, format!("{trees} (one a tree)")))),
    }
}

/// Plan which cache slots move where after a step, so that each request's rows are a chain again.
///
/// The forward pass wrote row r of a request (the root, then the nodes) to its logical slot base + r.
///
/// Parameters
/// ----------
/// trees : sequence of DraftTree
///     What was drafted, one a request.
/// paths : sequence of sequences of int
///     Node ids of the accepted paths, root first (`Outcome.path`).
/// bases : sequence of int
///     Logical slot of each request's root: tokens cached before the step.
/// pages : sequence of sequences of int, optional
///     Physical pages of each request from its first token on: rows of a block table. Needs `page_size`.
/// page_size : int, optional
///     Slots a page.
/// firsts : sequence of int, optional
///     Without pages: physical slot of each request's first token; 0 by default.
///
/// Returns
/// -------
/// CompactionPlan
///     `moves`, `kept` and `freed`.
///
/// Raises
/// ------
/// ArgumentError
///     A path does not lead down its tree, or a slot is beyond 2**63.
/// ShapeError
///     The lists differ in length, or pages are missing.
///
/// Examples
/// --------
/// >>> import specverify as sv
/// >>> tree = sv.DraftTree([5, 6, 7], [-1, -1, 1])
/// >>> plan = sv.compaction_plan([tree], [[1, 2]], [100])
/// >>> plan.moves.tolist(), plan.kept, plan.freed
/// ([[102, 101], [103, 102]], [103], [range(103, 104)])
#[pyfunction]
#[pyo3(signature = (trees, paths, bases, *, pages=None, page_size=None, firsts=None))]
pub fn compaction_plan(
    trees: Bound<'_, PyAny>,
    paths: Bound<'_, PyAny>,
    bases: Bound<'_, PyAny>,
    pages: Option<Bound<'_, PyAny>>,
    page_size: Option<Bound<'_, PyAny>>,
    firsts: Option<Bound<'_, PyAny>>,
) -> PyResult<CompactionPlan> {
    let py = trees.py();
    let trees = crate::tree::list(&trees)?;
    let lists = |name: &str, values: &Bound<'_, PyAny>, expected: &str| -> PyResult<Vec<Vec<u32>>> {
        let rows = items(name, values, "a sequence of ints")?;
        check_count(py, name, rows.len(), trees.len())?;
        rows.iter().enumerate().map(|(b, row)| integers(&format!("{name}[{b}]"), row, expected)).collect()
    };
    let slots = |name: &str, values: &Bound<'_, PyAny>| -> PyResult<Vec<u64>> {
        let values = items(name, values, SLOT)?;
        check_count(py, name, values.len(), trees.len())?;
        values.iter().enumerate().map(|(b, value)| slot(&format!("{name}[{b}]"), value)).collect()
    };
    let paths = lists("paths", &paths, "a node id: an int in [0, 2^32)")?;
    let bases = slots("bases", &bases)?;
    let firsts = optional(&firsts).map_or_else(|| Ok(vec![0; trees.len()]), |firsts| slots("firsts", firsts))?;
    let pages = optional(&pages).map(|pages| lists("pages", pages, "a page: an int in [0, 2^32)")).transpose()?;
    let page_size = match (optional(&page_size), &pages) {
        (Some(size), _) => match integer::<u32>("page_size", size, PAGE_SIZE)? {
            0 => return Err(refuse("page_size", size, PAGE_SIZE)),
            slots => slots,
        },
        (None, None) => 1,
        (None, Some(_)) => {
            return Err(exception(
                py,
                &Error::argument("page_size", "None", "the slots of a page, since pages are given"),
            ));
        }
    };
    let trees: Vec<PyRef<'_, DraftTree>> = trees.iter().map(Bound::borrow).collect();
    let steps: Vec<_> = (0..trees.len())
        .map(|b| Step {
            tree: trees[b].tree.topology(),
            path: &paths[b],
            base: bases[b],
            slots: match &pages {
                Some(pages) => Slots::Paged { pages: &pages[b], page_size },
                None => Slots::Linear { first: firsts[b] },
            },
        })
        .collect();
    for (b, step) in steps.iter().enumerate() {
        check_slots(b, step).or_raise(py)?;
    }
    specverify::cache::CompactionPlan::new(&steps).map_err(as_arguments).or_raise(py).map(CompactionPlan)
}

const PAGE_SIZE: &str = "a number of slots: an int in [1, 2^32)";

/// Every slot of a step fits int64, logical and physical.
fn check_slots(b: usize, step: &Step<'_>) -> specverify::Result<()> {
    const END: u64 = 1 << 63;
    let rows = step.tree.rows() as u64;
    match step.slots {
        Slots::Linear { first } if first.saturating_add(step.base).saturating_add(rows) > END => {
            let expected = format!("the step's {rows} slots below 2^63; firsts[{b}] is {first}");
            Err(Error::argument(format!("bases[{b}]"), step.base, expected))
        }
        Slots::Paged { .. } if step.base + rows > END => {
            Err(Error::argument(format!("bases[{b}]"), step.base, format!("the step's {rows} slots below 2^63")))
        }
        Slots::Paged { pages, page_size } => {
            let beyond = |&page: &u32| (u64::from(page) + 1) * u64::from(page_size) > END;
            match pages.iter().position(beyond) {
                Some(i) => {
                    let expected = format!("slots below 2^63 with a page_size of {page_size}");
                    Err(Error::argument(format!("pages[{b}][{i}]"), pages[i], expected))
                }
                None => Ok(()),
            }
        }
        Slots::Linear { .. } => Ok(()),
    }
}

/// The crate takes one list of steps and says `steps[2].path[0]`; here that is `paths[2][0]`.
fn as_arguments(mut error: Error) -> Error {
    if let Error::Argument { argument, .. } | Error::Shape { argument, .. } = &mut error
        && let Some((b, field)) = argument.strip_prefix("steps[").and_then(|rest| rest.split_once("]."))
    {
        let (field, index) = field.split_at(field.find('[').unwrap_or(field.len()));
        let plural = if field.ends_with('s') { "" } else { "s" };
        *argument = format!("{field}{plural}[{b}]{index}");
    }
    error
}
