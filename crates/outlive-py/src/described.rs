//! Descriptions of messages: from what Python calls a type, and as numpy's types.
//!
//! `outlive/_payload.py` reads numpy's types and classes, because numpy alone knows them.

use std::cell::RefCell;
use std::sync::Arc;

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::bytes::Given;
use crate::errors::Raised;
use crate::msgpack;
use crate::sample::{DTYPE, Function, shown_as_array};

/// What a topic, queue or state says of its messages, or a service of its requests or replies.
pub(crate) struct Described {
    description: Option<Description>,
    dtype: PyOnceLock<Py<PyAny>>,
}

static SPEC: Function = Function::new("outlive._payload", "spec");
static MESSAGE: Function = Function::new("outlive._payload", "message");
static RECORD: Function = Function::new("outlive._payload", "record");
static NDARRAY: Function = Function::new("numpy", "ndarray");
static DUMPS: Function = Function::new("json", "dumps");

/// What a service says of its requests and replies.
pub(crate) struct Both {
    pub(crate) request: Described,
    pub(crate) reply: Described,
}

impl Both {
    pub(crate) fn new(description: Option<Description>) -> Arc<Both> {
        let reply = description.as_ref().and_then(Description::reply).cloned();
        let request = description.map(|one| one.request());
        Arc::new(Both { request: Described::new(request), reply: Described::new(reply) })
    }
}

/// Reads `request=` and `reply=` of a service: of one alone the other is bytes.
pub(crate) fn given_pair(
    request: Option<&Bound<'_, PyAny>>,
    reply: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Description>> {
    let Some(py) = request.or(reply).map(|one| one.py()) else { return Ok(None) };
    let of = |one| match given(one)? {
        Some(one) => Ok(one),
        None => Description::encoded("", Encoding::Bytes).raised(py),
    };
    of(request)?.with_reply(of(reply)?).raised(py).map(Some)
}

/// Reads `payload=`, which is of any type that `outlive/_payload.py` knows.
pub(crate) fn given(payload: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Description>> {
    let Some(payload) = payload else { return Ok(None) };
    let py = payload.py();
    let spec = SPEC.get(py)?.call1((payload,))?;
    type Tuple<'py> = Option<Bound<'py, PyTuple>>;
    let (encoding, name, is_slice, shape, tail): (String, String, bool, Tuple<'_>, Tuple<'_>) =
        spec.extract()?;
    let encoding = Encoding::of_name(&encoding).ok_or_else(|| {
        PyValueError::new_err(format!(
            "'{encoding}' is no encoding: raw, msgpack, cdr, protobuf, json and bytes are"
        ))
    })?;
    let description = match shape {
        Some(shape) => Description::raw(&name, read_struct(&shape, 0)?).raised(py)?,
        None => Description::encoded(&name, encoding).raised(py)?,
    };
    let description = match tail {
        Some(tail) => description.with_tail(read_field(&tail, 0)?).raised(py)?,
        None => description,
    };
    if is_slice { description.slice().raised(py).map(Some) } else { Ok(Some(description)) }
}

/// Returns whether it has bytes to read.
fn is_buffer(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the thread is attached, and the object is borrowed.
    unsafe { ffi::PyObject_CheckBuffer(value.as_ptr()) != 0 }
}

/// Returns whether the value is a number or an array of numpy's: a buffer, too, but perhaps of
/// another type than the described one.
fn is_numpys(value: &Bound<'_, PyAny>) -> bool {
    value.hasattr("dtype").unwrap_or(false)
}

/// Returns whether the value is one number of numpy's.
fn is_numpys_scalar(value: &Bound<'_, PyAny>) -> bool {
    let has_no_extents = |shape: Bound<'_, PyAny>| shape.len().is_ok_and(|extents| extents == 0);
    is_numpys(value) && value.getattr("shape").is_ok_and(has_no_extents)
}

fn read_struct(spec: &Bound<'_, PyTuple>, depth: usize) -> PyResult<Struct> {
    if depth > outlive::describe::MOST_DEPTH {
        return Err(PyValueError::new_err("types are nested at most 8 deep"));
    }
    let (size, align, fields): (u32, u32, Vec<Bound<'_, PyTuple>>) = spec.extract()?;
    let fields = fields.iter().map(|field| read_field(field, depth));
    Ok(Struct { size, align, fields: fields.collect::<PyResult<_>>()? })
}

fn read_field(spec: &Bound<'_, PyTuple>, depth: usize) -> PyResult<Field> {
    let (name, offset, extents, of): (String, u32, Vec<u32>, Bound<'_, PyAny>) = spec.extract()?;
    let item = match of.cast::<PyTuple>() {
        Ok(nested) => Item::Struct(read_struct(nested, depth + 1)?),
        Err(_) => {
            let number = of.extract::<String>()?;
            Item::Number(Number::of_name(&number).ok_or_else(|| {
                PyTypeError::new_err(format!("'{number}' is no number of a description"))
            })?)
        }
    };
    Ok(Field { name, offset, extents, item })
}

impl Described {
    pub(crate) fn new(description: Option<Description>) -> Described {
        Described { description, dtype: PyOnceLock::new() }
    }

    /// Returns the description, if values lie in messages as they lie in memory.
    pub(crate) fn raw(&self) -> Option<&Description> {
        self.description.as_ref().filter(|one| one.encoding() == Encoding::Raw)
    }

    /// Returns numpy's type of a value, if messages are described.
    pub(crate) fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, PyAny>>> {
        let Some(description) = self.raw() else { return Ok(None) };
        let make = || {
            let spec = match description.single() {
                Some(field) => numpy_of_field(py, field)?,
                None => numpy_of_struct(py, description.shape(), description.tail())?,
            };
            Ok::<_, PyErr>(DTYPE.get(py)?.call1((spec,))?.unbind())
        };
        Ok(Some(self.dtype.get_or_try_init(py, make)?.bind(py)))
    }

    /// Returns how values are bytes; `None` if messages are not described.
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        self.description.as_ref().map(Description::encoding)
    }

    /// Returns the description.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.description.as_ref()
    }

    /// Returns the messages' text, as `Pose { x: f64 }`; `None` if they are not described.
    pub(crate) fn text(&self) -> Option<String> {
        self.description.as_ref().map(ToString::to_string)
    }

    /// Returns the value in an object's buffer of so many bytes: an array of values of a slice.
    /// `None`: messages are not described.
    pub(crate) fn shown<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        len: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = object.py();
        let (Some(description), Some(dtype)) = (self.raw(), self.dtype(py)?) else {
            return Ok(None);
        };
        if !description.fits(len) {
            // Bytes that a program without the description has published.
            return shown_as_array(object, None, None).map(Some);
        }
        if description.is_slice() {
            let count = len as u64 / description.size().max(1);
            return NDARRAY.get(py)?.call1(((count,), dtype, object)).map(Some);
        }
        if description.tail().is_some() {
            return RECORD.get(py)?.call1((object, dtype)).map(Some);
        }
        // Of a structured type this is a view, too, and keeps the object.
        let empty = PyTuple::empty(py);
        NDARRAY.get(py)?.call1((&empty, dtype, object))?.get_item(empty).map(Some)
    }

    /// Returns the bytes of a value that is to be published: of what numpy takes for one, of a
    /// dictionary, or of an object that has the fields; msgpack or JSON where the description names one of these.
    pub(crate) fn message<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let is_json = self.encoding() == Some(Encoding::Json);
        // Of an array, the bytes are no JSON.
        let is_taken_apart = is_numpys_scalar(value) || is_json && is_numpys(value);
        if (self.is_msgpack() || is_json) && (!is_buffer(value) || is_taken_apart) {
            let raised = RefCell::new(None);
            let plain = match is_taken_apart {
                true => value.call_method0("tolist")?,
                false => value.clone(),
            };
            if is_json {
                return DUMPS.get(py)?.call1((plain,))?.call_method0("encode");
            }
            let packed = outlive::Msgpack(&msgpack::Value::new(&plain, &raised)).to_vec();
            return match raised.into_inner() {
                Some(raised) => Err(raised),
                None => Ok(PyBytes::new(py, &packed.raised(py)?).into_any()),
            };
        }
        let (Some(description), Some(dtype)) = (self.raw(), self.dtype(py)?) else {
            return Ok(value.clone());
        };
        MESSAGE.get(py)?.call1((value, dtype, description.is_slice()))
    }

    /// Returns the bytes of a value that is sent: those of a buffer as they are, else, and of numpy's
    /// values, as [`Described::message`]; refuses another length.
    pub(crate) fn sent<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let is_bytes = is_buffer(value) && !is_numpys(value);
        let data = if is_bytes { value.clone() } else { self.message(value)? };
        if self.raw().is_some() {
            self.check(Given::of(&data)?.len())?;
        }
        Ok(data)
    }

    /// Returns the value that received bytes are: a record or a number of numpy's, an object of
    /// msgpack, or the bytes.
    pub(crate) fn value<'py>(&self, bytes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let given = Given::of(bytes)?;
        if self.is_msgpack() {
            return given.with(bytes.py(), |bytes_of| msgpack::read(bytes.py(), bytes_of))?;
        }
        Ok(self.shown(bytes, given.len())?.unwrap_or_else(|| bytes.clone()))
    }

    fn is_msgpack(&self) -> bool {
        self.description.as_ref().is_some_and(|one| one.encoding() == Encoding::Msgpack)
    }

    /// Refuses a message of another length than the type's.
    pub(crate) fn check(&self, len: usize) -> PyResult<()> {
        match self.raw() {
            Some(description) if !description.fits(len) => {
                let size = description.size();
                let more = match description.tail() {
                    Some(tail) => format!(", and {} for each item of its tail", tail.bytes()),
                    None => String::new(),
                };
                let why = format!("a message is {description} of {size} bytes{more}, not of {len}");
                Err(PyValueError::new_err(why))
            }
            _ => Ok(()),
        }
    }
}

/// Of a tail it makes an array without items.
fn numpy_of_struct<'py>(
    py: Python<'py>,
    shape: &Struct,
    tail: Option<&Field>,
) -> PyResult<Bound<'py, PyAny>> {
    let spec = PyDict::new(py);
    let (names, formats, offsets) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    let mut tail = tail.cloned();
    if let Some(tail) = &mut tail {
        tail.extents.insert(0, 0);
    }
    for field in shape.fields.iter().chain(&tail) {
        names.append(&field.name)?;
        formats.append(numpy_of_field(py, field)?)?;
        offsets.append(field.offset)?;
    }
    spec.set_item("names", names)?;
    spec.set_item("formats", formats)?;
    spec.set_item("offsets", offsets)?;
    spec.set_item("itemsize", shape.size)?;
    Ok(spec.into_any())
}

fn numpy_of_field<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyAny>> {
    let item = match &field.item {
        Item::Number(number) => {
            let format = match number {
                Number::Bool => "?",
                Number::U8 => "u1",
                Number::I8 => "i1",
                Number::U16 => "u2",
                Number::I16 => "i2",
                Number::U32 => "u4",
                Number::I32 => "i4",
                Number::U64 => "u8",
                Number::I64 => "i8",
                Number::F32 => "f4",
                Number::F64 => "f8",
                other => return Err(unknown(other.name())),
            };
            format.into_pyobject(py)?.into_any()
        }
        Item::Struct(nested) => DTYPE.get(py)?.call1((numpy_of_struct(py, nested, None)?,))?,
        _ => return Err(unknown("another kind")),
    };
    if field.extents.is_empty() {
        return Ok(item);
    }
    let extents = PyTuple::new(py, &field.extents)?;
    Ok((item, extents).into_pyobject(py)?.into_any())
}

fn unknown(what: &str) -> PyErr {
    PyTypeError::new_err(format!("numpy has no type for fields of {what}"))
}
