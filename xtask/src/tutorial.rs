//! to come
use std::path::Path;
use crate::count::Count;
pub(crate) fn play(_python: Option<&Path>) -> Count { Count::default() }
