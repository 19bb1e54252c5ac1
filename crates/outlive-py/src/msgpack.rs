//! Python's values as msgpack, straight into and out of shared memory: None, bool, int, float, str,
//! bytes, list, tuple, dict.

use std::cell::RefCell;
use std::fmt;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::errors::raise;

/// How deep lists may be nested: one that contains itself is an error, not a stack overflow.
const DEEPEST: usize = 100;

/// A value to be written. The first exception that writing it raised is kept.
pub(crate) struct Value<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    depth: usize,
    raised: &'a RefCell<Option<PyErr>>,
}

impl<'a, 'py> Value<'a, 'py> {
    pub(crate) fn new(
        value: &'a Bound<'py, PyAny>,
        raised: &'a RefCell<Option<PyErr>>,
    ) -> Value<'a, 'py> {
        Value { value, depth: 0, raised }
    }

    fn inner<'b>(&'b self, value: &'b Bound<'py, PyAny>) -> Value<'b, 'py> {
        Value { value, depth: self.depth + 1, raised: self.raised }
    }

    fn fail<E: serde::ser::Error>(&self, raised: PyErr) -> E {
        let error = E::custom(&raised);
        self.raised.borrow_mut().get_or_insert(raised);
        error
    }
}

impl Serialize for Value<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = self.value;
        if self.depth > DEEPEST {
            return Err(self.fail(PyValueError::new_err(
                "lists and dicts lie more than 100 deep in each other",
            )));
        }
        if value.is_none() {
            return to.serialize_unit();
        }
        if let Ok(value) = value.cast::<PyBool>() {
            return to.serialize_bool(value.is_true());
        }
        if value.is_instance_of::<PyInt>() {
            return match (value.extract::<i64>(), value.extract::<u64>()) {
                (Ok(value), _) => to.serialize_i64(value),
                (_, Ok(value)) => to.serialize_u64(value),
                (Err(raised), _) => Err(self.fail(raised)),
            };
        }
        if let Ok(value) = value.cast::<PyFloat>() {
            return to.serialize_f64(value.value());
        }
        if value.is_instance_of::<PyString>() {
            let text =
                value.extract::<std::borrow::Cow<'_, str>>().map_err(|raised| self.fail(raised))?;
            return to.serialize_str(&text);
        }
        if let Ok(value) = value.cast::<PyBytes>() {
            return to.serialize_bytes(value.as_bytes());
        }
        if let Ok(value) = value.cast::<PyByteArray>() {
            return to.serialize_bytes(&value.to_vec());
        }
        if let Ok(list) = value.cast::<PyList>() {
            // Other threads may change it meanwhile, where there is no interpreter's lock.
            let mut missing = list.len();
            let mut items = to.serialize_seq(Some(missing))?;
            for item in list.iter().take(missing) {
                items.serialize_element(&self.inner(&item))?;
                missing -= 1;
            }
            return if missing == 0 {
                items.end()
            } else {
                Err(S::Error::custom("the list has changed"))
            };
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            let mut items = to.serialize_seq(Some(tuple.len()))?;
            for item in tuple {
                items.serialize_element(&self.inner(&item))?;
            }
            return items.end();
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            // A copy, in one step: iterating over one that another thread changes would panic.
            let dict = dict.copy().map_err(|raised| self.fail(raised))?;
            let mut entries = to.serialize_map(Some(dict.len()))?;
            for (key, value) in dict {
                entries.serialize_entry(&self.inner(&key), &self.inner(&value))?;
            }
            return entries.end();
        }
        let class =
            value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let why = format!(
            "a {class} cannot be written as msgpack: None, bool, int, float, str, bytes, list, tuple and dict can"
        );
        Err(self.fail(PyTypeError::new_err(why)))
    }
}

/// Reads a value.
pub(crate) fn read<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut from = rmp_serde::Deserializer::from_read_ref(bytes);
    from.set_max_depth(DEEPEST + 10);
    let value = Reader { py }
        .deserialize(&mut from)
        .map_err(|error| raise(py, "BadMessage", format!("no msgpack: {error}")))?;
    // The deserializer does not tell how far it has come. Where no byte is left it cannot read the
    // marker of a further value.
    match bool::deserialize(&mut from) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(raise(py, "BadMessage", "no msgpack: bytes are left behind the value")),
    }
}

#[derive(Clone, Copy)]
struct Reader<'py> {
    py: Python<'py>,
}

impl<'de, 'py> DeserializeSeed<'de> for Reader<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'py> Reader<'py> {
    fn of<T: IntoPyObject<'py>, E: serde::de::Error>(
        self,
        value: T,
    ) -> Result<Bound<'py, PyAny>, E> {
        value.into_bound_py_any(self.py).map_err(E::custom)
    }
}

use pyo3::IntoPyObjectExt;

impl<'de, 'py> Visitor<'de> for Reader<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that Python has")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        self.of(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.of(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.of(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        self.of(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        self.of(value)
    }

    fn visit_bytes<E: serde::de::Error>(self, value: &[u8]) -> Result<Self::Value, E> {
        Ok(PyBytes::new(self.py, value).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.py);
        while let Some(item) = items.next_element_seed(self)? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.py);
        while let Some(key) = entries.next_key_seed(self)? {
            let value = entries.next_value_seed(self)?;
            dict.set_item(key, value).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}
