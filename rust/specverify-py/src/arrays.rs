//! Arrays and tensors, read in place: numpy by its array header, everything else (torch, bf16 included) by DLPack.
//!
//! This is the one FFI file of the bindings. What it hands out are safe slices that borrow from a [`View`], which keeps the
//! array alive.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use half::{bf16, f16};
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, PyArrayObject};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use specverify::Error;
use specverify::attention::ValuesMut;
use specverify::rows::{Matrix, Values};

use crate::args::{shown, type_name};
use crate::errors::{OrRaise, exception};

/// Element types that are read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    F32,
    F16,
    Bf16,
    F64,
}

/// What an argument may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// float32, float16 or bfloat16.
    Logits,
    /// The same or float64, in which references are computed.
    Probabilities,
}

impl Holds {
    fn names(self) -> &'static str {
        match self {
            Holds::Logits => "float32, float16 or bfloat16",
            Holds::Probabilities => "float32, float16, bfloat16 or float64",
        }
    }

    fn check(
        self,
        py: Python<'_>,
        name: &str,
        found: Option<Element>,
        dtype: impl FnOnce() -> String,
    ) -> PyResult<Element> {
        match found {
            Some(element) if element != Element::F64 || self == Holds::Probabilities => Ok(element),
            _ => {
                let error = Error::Dtype { argument: name.into(), value: dtype(), expected: self.names().into() };
                Err(exception(py, &error))
            }
        }
    }
}

/// A float matrix in host memory, contiguous within a row, and the Python object that keeps it alive.
pub struct View {
    _owner: Py<PyAny>,
    data: NonNull<u8>,
    element: Element,
    rows: usize,
    columns: usize,
    /// Elements from one row to the next.
    stride: usize,
}

/// What an array's header says, before any of it is believed.
struct Header {
    owner: Py<PyAny>,
    data: *mut u8,
    element: Element,
    shape: Vec<i64>,
    /// In elements; `None` for C order.
    strides: Option<Vec<i64>>,
    read_only: bool,
}

impl View {
    /// A [rows, columns] array or tensor.
    pub fn matrix(name: &str, value: &Bound<'_, PyAny>, holds: Holds, expected: &str) -> PyResult<Self> {
        let header = header(name, value, holds)?;
        match header.shape[..] {
            [_, _] => header.check(value.py(), name),
            _ => Err(exception(value.py(), &Error::shape(name, format!("{:?}", header.shape), expected))),
        }
    }

    /// One row: [columns] or [1, columns].
    pub fn row(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut header = header(name, value, Holds::Logits)?;
        if let [columns] = header.shape[..] {
            header.shape = vec![1, columns];
            header.strides = header.strides.map(|strides| vec![columns, strides[0]]);
        }
        match header.shape[..] {
            [1, _] => header.check(value.py(), name),
            _ => Err(exception(value.py(), &Error::shape(name, format!("{:?}", header.shape), "[V], one row"))),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows `start..start + count`.
    pub fn slice(&self, py: Python<'_>, start: usize, count: usize) -> PyResult<Matrix<'_>> {
        debug_assert!(start + count <= self.rows);
        let length = if count == 0 { 0 } else { (count - 1) * self.stride + self.columns };
        let values = match self.element {
            Element::F32 => Values::F32(self.elements::<f32>(start, length)),
            Element::F16 => Values::F16(self.elements::<f16>(start, length)),
            Element::Bf16 => Values::Bf16(self.elements::<bf16>(start, length)),
            Element::F64 => Values::F64(self.elements::<f64>(start, length)),
        };
        Matrix::new(values, count, self.columns, self.stride).or_raise(py)
    }

    fn elements<T>(&self, start_row: usize, length: usize) -> &[T] {
        debug_assert_eq!(size_of::<T>(), self.element.size());
        if length == 0 {
            return &[];
        }
        // SAFETY: `Header::check` found `data` aligned for the element type and the offsets below `isize::MAX` bytes; `start_row`
        // and `length` stay inside the shape and strides that the exporter vouched for; `_owner` keeps the memory alive as
        // long as the slice lives. Floats have no invalid bit patterns. Python code that writes to the array from
        // another thread while it is read would race, as with every reader of such buffers; nothing here writes.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast::<T>().add(start_row * self.stride), length) }
    }
}

/// A float array of any number of dimensions in host memory, the last of which is contiguous, and the object that keeps it alive.
pub struct Strided {
    _owner: Py<PyAny>,
    data: NonNull<u8>,
    element: Element,
    pub shape: Vec<usize>,
    /// In elements; 0 of dimensions of length 0 and 1, where they mean nothing.
    pub strides: Vec<usize>,
    /// Elements from the first to the last.
    length: usize,
    read_only: bool,
}

impl Strided {
    /// An array or tensor of as many dimensions as `expected` has names.
    pub fn new<const N: usize>(name: &str, value: &Bound<'_, PyAny>, expected: [&str; N]) -> PyResult<Self> {
        let header = header(name, value, Holds::Logits)?;
        let py = value.py();
        if header.shape.len() != N {
            let expected = format!("[{}]", expected.join(", "));
            return Err(exception(py, &Error::shape(name, format!("{:?}", header.shape), expected)));
        }
        header.strided(py, name)
    }

    /// Its elements, those between the rows included.
    pub fn values(&self) -> Values<'_> {
        match self.element {
            Element::F32 => Values::F32(self.elements()),
            Element::F16 => Values::F16(self.elements()),
            Element::Bf16 => Values::Bf16(self.elements()),
            Element::F64 => Values::F64(self.elements()),
        }
    }

    fn elements<T>(&self) -> &[T] {
        debug_assert_eq!(size_of::<T>(), self.element.size());
        // SAFETY: as in `View::elements`: aligned, below `isize::MAX` bytes, inside what the exporter vouched for, kept alive.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast::<T>(), self.length) }
    }

    /// Its elements, to be written; none of `others` may share memory with it.
    pub fn values_mut(&mut self, py: Python<'_>, name: &str, others: &[(&str, &Self)]) -> PyResult<ValuesMut<'_>> {
        if self.read_only {
            return Err(exception(py, &Error::argument(name, "a read-only array", "one that can be written")));
        }
        let bytes = |of: &Self| of.data.addr().get()..of.data.addr().get() + of.length * of.element.size();
        let mine = bytes(self);
        for (other, theirs) in others.iter().map(|(other, array)| (other, bytes(array))) {
            if mine.start < theirs.end && theirs.start < mine.end {
                let value = format!("an array that shares memory with {other}");
                return Err(exception(py, &Error::argument(name, value, "memory of its own")));
            }
        }
        Ok(match self.element {
            Element::F32 => ValuesMut::F32(self.elements_mut()),
            Element::F16 => ValuesMut::F16(self.elements_mut()),
            Element::Bf16 => ValuesMut::Bf16(self.elements_mut()),
            Element::F64 => {
                let error = Error::Dtype {
                    argument: name.into(),
                    value: "float64".into(),
                    expected: Holds::Logits.names().into(),
                };
                return Err(exception(py, &error));
            }
        })
    }

    fn elements_mut<T>(&mut self) -> &mut [T] {
        debug_assert_eq!(size_of::<T>(), self.element.size());
        // SAFETY: as in `elements`. `values_mut` found it writable and apart from the other arrays of the call, so that no slice of
        // ours overlaps this one.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().cast::<T>(), self.length) }
    }
}

impl Element {
    fn size(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::F16 | Element::Bf16 => 2,
        }
    }
}

impl Header {
    /// Believes the header once every row can be read in place.
    fn check(self, py: Python<'_>, name: &str) -> PyResult<View> {
        let raise = |error: &Error| Err(exception(py, error));
        let size = |length: i64| usize::try_from(length).unwrap_or(0);
        let (rows, columns) = (size(self.shape[0]), size(self.shape[1]));
        if columns == 0 {
            return raise(&Error::shape(name, format!("{:?}", self.shape), "at least one column"));
        }
        // The strides of dimensions of length 0 and 1, and of empty arrays, mean nothing and may hold anything.
        let row_stride = match &self.strides {
            Some(strides) if rows > 1 => strides[0],
            _ => columns as i64,
        };
        let column_stride = match &self.strides {
            Some(strides) if rows > 0 && columns > 1 => strides[1],
            _ => 1,
        };
        let layout = || format!("{:?} with strides [{row_stride}, {column_stride}] (in elements)", self.shape);
        if column_stride != 1 || row_stride < columns as i64 {
            let expected = "rows that are contiguous and do not overlap: pass a contiguous copy";
            return raise(&Error::shape(name, layout(), expected));
        }
        let stride = row_stride as usize;
        let bytes = rows.max(1).checked_mul(stride).and_then(|n| n.checked_mul(self.element.size()));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return raise(&Error::shape(name, layout(), "fewer than 2^63 bytes"));
        }
        let data = match NonNull::new(self.data) {
            Some(data) if self.data.addr().is_multiple_of(self.element.size()) => data,
            // Of no rows nothing is read, and exporters may give no address for them.
            _ if rows == 0 => NonNull::dangling(),
            _ => return raise(&Error::argument(name, "an unaligned array", "an aligned one: pass a copy")),
        };
        Ok(View { _owner: self.owner, data, element: self.element, rows, columns, stride })
    }
}

impl Header {
    /// Believes the header once every element can be reached from the first by non-negative strides.
    fn strided(self, py: Python<'_>, name: &str) -> PyResult<Strided> {
        let shape: Vec<usize> = self.shape.iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
        let mut strides = self.strides.unwrap_or_else(|| {
            // C order.
            (0..shape.len()).map(|i| self.shape[i + 1..].iter().product()).collect()
        });
        let is_empty = shape.contains(&0);
        for (stride, &length) in strides.iter_mut().zip(&shape) {
            if is_empty || length < 2 {
                *stride = 0;
            }
        }
        let layout = || format!("{:?} with strides {strides:?} (in elements)", self.shape);
        let inner = shape.last().copied().unwrap_or(1);
        if (!is_empty && inner > 1 && strides.last() != Some(&1)) || strides.iter().any(|&stride| stride < 0) {
            let expected = "a contiguous last dimension and no negative strides: pass a contiguous copy";
            return Err(exception(py, &Error::shape(name, layout(), expected)));
        }
        let strides: Vec<usize> = strides.iter().map(|&stride| stride as usize).collect();
        let last = shape.iter().zip(&strides).try_fold(0_usize, |end, (&length, &stride)| {
            length.saturating_sub(1).checked_mul(stride).and_then(|offset| end.checked_add(offset))
        });
        let length = last.and_then(|last| if is_empty { Some(0) } else { last.checked_add(1) });
        let fits =
            |length: &usize| length.checked_mul(self.element.size()).is_some_and(|bytes| bytes <= isize::MAX as usize);
        let Some(length) = length.filter(fits) else {
            let value = format!("{:?} with strides {strides:?} (in elements)", self.shape);
            return Err(exception(py, &Error::shape(name, value, "fewer than 2^63 bytes")));
        };
        let data = match NonNull::new(self.data) {
            Some(data) if self.data.addr().is_multiple_of(self.element.size()) => data,
            _ if length == 0 => NonNull::<u64>::dangling().cast(),
            _ => {
                return Err(exception(py, &Error::argument(name, "an unaligned array", "an aligned one: pass a copy")));
            }
        };
        Ok(Strided {
            _owner: self.owner,
            data,
            element: self.element,
            shape,
            strides,
            length,
            read_only: self.read_only,
        })
    }
}

fn header(name: &str, value: &Bound<'_, PyAny>, holds: Holds) -> PyResult<Header> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return numpy_header(name, array, holds);
    }
    if value.hasattr("__dlpack__")? && value.hasattr("__dlpack_device__")? {
        return dlpack_header(name, value, holds);
    }
    let expected = "a numpy array, or a tensor in host memory that speaks DLPack";
    Err(exception(value.py(), &Error::argument(name, format!("of type {}", type_name(value)), expected)))
}

fn numpy_header(name: &str, array: &Bound<'_, PyUntypedArray>, holds: Holds) -> PyResult<Header> {
    let dtype = array.dtype();
    let native = dtype.is_native_byteorder() != Some(false);
    let found = match (dtype.kind(), dtype.itemsize()) {
        (b'f', 8) if native => Some(Element::F64),
        (b'f', 4) if native => Some(Element::F32),
        (b'f', 2) if native => Some(Element::F16),
        // ml_dtypes' bfloat16 is known by its name: numpy itself has none.
        (b'V', 2) if dtype.typeobj().name()? == "bfloat16" => Some(Element::Bf16),
        _ => None,
    };
    let element = holds.check(array.py(), name, found, || shown(dtype.as_any()))?;
    let size = element.size() as isize;
    let strides = array.strides();
    if array.shape().iter().zip(strides).any(|(&length, stride)| length > 1 && stride % size != 0) {
        let found = format!("{:?} with strides {strides:?} (in bytes)", array.shape());
        return Err(exception(
            array.py(),
            &Error::shape(name, found, "strides of whole elements: pass a contiguous copy"),
        ));
    }
    let header: *mut PyArrayObject = array.as_array_ptr();
    // SAFETY: `array` is a numpy array, so its object starts with this struct, of which `data` is the address of the first element.
    let data = unsafe { (*header).data }.cast::<u8>();
    Ok(Header {
        owner: array.clone().into_any().unbind(),
        data,
        element,
        shape: array.shape().iter().map(|&length| length as i64).collect(),
        strides: Some(strides.iter().map(|&stride| (stride / size) as i64).collect()),
        // SAFETY: as above, `flags` being another field.
        read_only: unsafe { (*header).flags } & NPY_ARRAY_WRITEABLE == 0,
    })
}

/// `DLDevice` of dlpack.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

/// `DLDataType` of dlpack.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor` of dlpack.h.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor` of dlpack.h, as far as it is read: the capsule `dltensor` points to one.
#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
}

/// `DLManagedTensorVersioned` of dlpack.h: the capsule `dltensor_versioned` points to one.
#[repr(C)]
struct DlManagedVersioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: DlTensor,
}

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
/// `DLPACK_FLAG_BITMASK_READ_ONLY` of dlpack.h.
const READ_ONLY: u64 = 1;

/// Host memory, pinned or not.
const HOST: [i32; 3] = [1, 3, 11];

fn device_name(device: i32, index: i32) -> String {
    let name = match device {
        2 | 13 => "CUDA",
        4 => "OpenCL",
        7 => "Vulkan",
        8 => "Metal",
        10 => "ROCm",
        14 => "oneAPI",
        _ => return format!("DLPack device type {device}, index {index}"),
    };
    format!("{name} device {index}")
}

fn dlpack_header(name: &str, value: &Bound<'_, PyAny>, holds: Holds) -> PyResult<Header> {
    let py = value.py();
    // What an exporter refuses (a sparse tensor, say) is told with its own words.
    let refused = |why: PyErr| {
        let text = format!("of type {}, which can't be read by DLPack ({})", type_name(value), why.value(py));
        exception(py, &Error::argument(name, text, "a dense array or tensor in host memory"))
    };
    let (device, index) =
        value.call_method0("__dlpack_device__").and_then(|place| place.extract::<(i32, i32)>()).map_err(refused)?;
    if !HOST.contains(&device) {
        let found = format!("on {}", device_name(device, index));
        return Err(exception(py, &Error::argument(name, found, "host memory: pass a CPU copy")));
    }
    // torch does not export a tensor that wants gradients; its values are the same without.
    let wants_gradient = value.getattr("requires_grad").is_ok_and(|flag| flag.is_truthy().unwrap_or(false));
    let value = if wants_gradient { &value.call_method0("detach").map_err(refused)? } else { value };
    // torch exports a tensor that is only marked as negated with the sign it had before.
    if value.call_method0("is_neg").is_ok_and(|flag| flag.is_truthy().unwrap_or(false)) {
        let expected = "one whose memory holds its values: pass tensor.resolve_neg()";
        return Err(exception(py, &Error::argument(name, "a lazily negated tensor", expected)));
    }
    let keywords = PyDict::new(py);
    keywords.set_item("max_version", (1, 0))?;
    let exported = match value.call_method("__dlpack__", (), Some(&keywords)) {
        // Exporters from before DLPack 1.0 don't know the keyword.
        Err(raised) if raised.is_instance_of::<PyTypeError>(py) => value.call_method0("__dlpack__"),
        exported => exported,
    };
    let exported = exported.map_err(refused)?;
    let not_a_capsule = || {
        Error::argument(
            name,
            format!("of type {}, whose __dlpack__ gave {}", type_name(value), shown(&exported)),
            "a DLPack capsule",
        )
    };
    let capsule = exported.cast::<PyCapsule>().map_err(|_| exception(py, &not_a_capsule()))?;
    let mut read_only = false;
    let tensor: &DlTensor = if let Ok(managed) = capsule.pointer_checked(Some(VERSIONED)) {
        // SAFETY: a capsule of this name points to a live DLManagedTensorVersioned until it is renamed by a consumer, which
        // we never do; its destructor frees the tensor when `owner` drops it. The layout up to `flags` is fixed by
        // the standard for every version, the rest for major version 1, which is checked before anything is read.
        let managed = unsafe { managed.cast::<DlManagedVersioned>().as_ref() };
        if managed.major != 1 {
            let found = format!("a DLPack {}.{} tensor", managed.major, managed.minor);
            return Err(exception(py, &Error::argument(name, found, "DLPack 1.x")));
        }
        read_only = managed.flags & READ_ONLY != 0;
        &managed.tensor
    } else if let Ok(managed) = capsule.pointer_checked(Some(LEGACY)) {
        // SAFETY: as above; a capsule of this name points to a DLManagedTensor, which starts with its tensor.
        &unsafe { managed.cast::<DlManaged>().as_ref() }.tensor
    } else {
        return Err(exception(py, &not_a_capsule()));
    };
    let DlDataType { code, bits, lanes } = tensor.dtype;
    let found = match (code, bits, lanes) {
        (FLOAT, 64, 1) => Some(Element::F64),
        (FLOAT, 32, 1) => Some(Element::F32),
        (FLOAT, 16, 1) => Some(Element::F16),
        (BFLOAT, 16, 1) => Some(Element::Bf16),
        _ => None,
    };
    let element = holds.check(py, name, found, || match value.getattr("dtype") {
        Ok(dtype) => shown(&dtype),
        Err(_) => format!("DLPack code {code}, {bits} bits, {lanes} lanes"),
    })?;
    if !HOST.contains(&tensor.device.device_type) {
        let found = format!("on {}", device_name(tensor.device.device_type, tensor.device.device_id));
        return Err(exception(py, &Error::argument(name, found, "host memory: pass a CPU copy")));
    }
    let dimensions = usize::try_from(tensor.ndim).unwrap_or(0);
    let list = |first: *const i64| match NonNull::new(first.cast_mut()) {
        // SAFETY: by the standard `shape`, and `strides` where it is not null, hold `ndim` numbers.
        Some(first) => unsafe { std::slice::from_raw_parts(first.as_ptr(), dimensions) }.to_vec(),
        None => Vec::new(),
    };
    Ok(Header {
        owner: exported.clone().unbind(),
        data: tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize),
        element,
        shape: list(tensor.shape),
        strides: (!tensor.strides.is_null()).then(|| list(tensor.strides)),
        read_only,
    })
}
