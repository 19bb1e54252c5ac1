//! `Pool`: memory from a pool; `Block`, which one process has; `SharedObject`, which several hold.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive::pool;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::domain::{self, Peer};
use crate::errors::{Raised, raise};
use crate::handle_mutex::process;
use crate::layout::{self, Layout};
use crate::lender::lender;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::sample::shown_as_array;

/// Memory in pieces of 0 bytes to 1 GiB, allocated and freed in some hundred nanoseconds, which one
/// process may hand over to another without a copy. What a process had is free once it has ended,
/// however it ended.
///
/// ``alloc`` returns a :class:`Block`. ``Block.offer`` hands it over: send the number that it
/// returns by any means to the process that claims it (``claim``). ``Block.share`` turns it into
/// one that several processes hold and none may write any more.
///
/// ``max_bytes``: the most bytes of the file system that the pool may take, 64 KiB to 8 GiB; an
/// existing pool with another limit is an error. The whole file counts: blocks, the pool's own
/// words, and a record of 16 bytes for each block, which stays when memory of small blocks is used
/// for larger ones.
///
/// >>> pool = Pool("frames", folder)
/// >>> block = pool.alloc((2, 3), np.float32)
/// >>> block.numpy()[:] = 1.5                  # in shared memory
/// >>> offset = block.offer()                  # a queue's message, say
/// >>> mine = pool.claim(offset)               # in the other process
/// >>> float(mine.numpy(np.float32, (2, 3)).sum())
/// 9.0
/// >>> shared = mine.share()
/// >>> again = pool.join(shared.offset)        # and in any other process
/// >>> again.numpy(np.float32)[0].item(), len(again)
/// (1.5, 24)
/// >>> pool.usage()["holders"]
/// 1
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Pool {
    pool: Open<pool::Pool>,
    named: Named,
}

fn options(max_bytes: Option<u64>, cache_bytes: Option<u64>) -> pool::PoolOptions {
    let mut options = pool::Pool::options();
    if let Some(bytes) = max_bytes {
        options = options.max_bytes(bytes);
    }
    if let Some(bytes) = cache_bytes {
        options = options.cache_bytes(bytes);
    }
    options
}

impl Pool {
    fn of((pool, named): (pool::Pool, Named)) -> Pool {
        Pool { pool: Open::new(pool), named }
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, cache_bytes=None))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        cache_bytes: Option<u64>,
    ) -> PyResult<Pool> {
        Named::make(py, name, domain, |d, n| options(max_bytes, cache_bytes).open_or_create(d, n))
            .map(Pool::of)
    }

    /// Opens the existing pool of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, cache_bytes=None))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        cache_bytes: Option<u64>,
    ) -> PyResult<Pool> {
        Named::find(py, name, domain, |d, n| options(None, cache_bytes).open(d, n)).map(Pool::of)
    }

    /// Makes a new pool of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, cache_bytes=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        cache_bytes: Option<u64>,
    ) -> PyResult<Pool> {
        Named::make(py, name, domain, |d, n| options(max_bytes, cache_bytes).create_new(d, n))
            .map(Pool::of)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.named.domain()
    }

    /// Allocates memory for an array of that ``shape`` and ``dtype``; without a ``dtype``, for so
    /// many bytes. Its contents are arbitrary. ``NoSpace`` names the process that has most of the
    /// pool.
    #[pyo3(signature = (shape, dtype=None))]
    fn alloc(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Block> {
        let extents = layout::extents(shape)?;
        let layout = match dtype {
            None if extents.len() == 1 => Layout::bytes_checked(extents[0])?,
            None => {
                return Err(PyTypeError::new_err(
                    "without a dtype a block has so many bytes: one number",
                ));
            }
            Some(dtype) => Layout::of_type(dtype, &extents)?,
        };
        let len =
            layout.len().ok_or_else(|| raise(py, "TooLarge", "more bytes than there can be"))?;
        let pool = self.pool.get()?;
        Ok(Block::new(pool.alloc(len).raised(py)?, len, layout, &pool, &self.named))
    }

    /// Takes over a block that was handed over, as bytes; ``Gone`` if another process has claimed
    /// it, or it is no more.
    fn claim(&self, py: Python<'_>, offset: u64) -> PyResult<Block> {
        let pool = self.pool.get()?;
        let object = pool.claim(offset.into()).raised(py)?;
        let len = object.len();
        Ok(Block::new(object, len, Layout::bytes_checked(len)?, &pool, &self.named))
    }

    /// Makes this process a holder of a shared object; ``Gone`` if no process holds it any more.
    fn join(&self, py: Python<'_>, offset: u64) -> PyResult<SharedObject> {
        let kept = self.pool.get()?;
        // SAFETY: `SharedObject` keeps the pool, and drops it last.
        let pool = unsafe { lender(&*kept) };
        SharedObject::new(pool.join(offset.into()).raised(py)?, None, &kept, &self.named)
    }

    /// Returns how many objects are in which state (used, cached, free, offered, shared, moving),
    /// bytes, max_bytes, holders, failed.
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let usage = self.pool.get()?.usage().raised(py)?;
        let dict = PyDict::new(py);
        for (name, count) in [
            ("objects", usage.sum.total),
            ("used", usage.sum.used),
            ("cached", usage.sum.cached),
            ("free", usage.sum.free),
            ("offered", usage.sum.offered),
            ("shared", usage.sum.shared),
            ("moving", usage.sum.moving),
            ("failed", usage.sum.failed),
            ("bytes", usage.bytes),
            ("max_bytes", usage.max_bytes),
            ("holders", usage.holders.len() as u64),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// Makes so many objects of so many bytes, and brings them in, for the calling thread.
    fn prefault(&self, py: Python<'_>, objects: usize, size: usize) -> PyResult<()> {
        self.pool.get()?.prefault(objects, size).raised(py)
    }

    /// Frees what dead processes had, and gives each 2 MiB back to the system in which all objects
    /// are free; returns how many bytes.
    fn gc(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.pool.get()?.gc().raised(py)?.bytes)
    }

    /// Closes this object: using it raises ``ValueError``. Its blocks and shared objects stay.
    fn close(&self) {
        self.pool.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().pool.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let usage = self.pool.get().map(|pool| pool.usage());
        let state = usage.map(|usage| match usage {
            Ok(usage) => format!("{} used of {} bytes", usage.bytes, usage.max_bytes),
            Err(error) => error.to_string(),
        });
        self.named.repr("Pool", state)
    }
}

/// A pool's memory that this process alone has, to read and write: ``block.numpy()``,
/// ``memoryview(block)``. It is free again when the last reference to it and to its views is gone,
/// or by ``free``.
///
/// As long as there is a view (an array, a ``memoryview``), ``free``, ``offer`` and ``share`` raise
/// ``BufferError``: a view could write memory that belongs to another process by then.
///
/// >>> block = Pool("blocks", folder).alloc(5)
/// >>> with memoryview(block) as view:
/// ...     view[:] = b"bytes"
/// >>> bytes(block), len(block)
/// (b'bytes', 5)
/// >>> array = block.numpy()
/// >>> try:
/// ...     block.free()
/// ... except BufferError:
/// ...     print("there is an array still")
/// there is an array still
/// >>> del array
/// >>> block.free()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Block {
    /// NULL: freed, or another process's.
    data: AtomicPtr<u8>,
    len: usize,
    layout: Layout,
    /// Views by the buffer protocol.
    views: AtomicUsize,
    /// Held by a thread that looks at `views` and acts on it, so that none comes in between.
    acting: Mutex<()>,
    process: u32,
    pool: Arc<pool::Pool>,
    of: Named,
}

impl Block {
    fn new(
        object: pool::Object<'_>,
        len: usize,
        layout: Layout,
        pool: &Arc<pool::Pool>,
        of: &Named,
    ) -> Block {
        Block {
            data: AtomicPtr::new(object.into_raw().as_ptr()),
            len,
            layout,
            views: AtomicUsize::new(0),
            acting: Mutex::new(()),
            process: process(),
            pool: Arc::clone(pool),
            of: of.clone(),
        }
    }

    /// Returns the object, if there are no views of it.
    fn take(&self, py: Python<'_>) -> PyResult<pool::Object<'_>> {
        self.take_unseen()?.raised(py)
    }

    /// Returns the same, with nothing of Python's inside.
    fn take_unseen(&self) -> PyResult<Result<pool::Object<'_>, pool::PoolError>> {
        let _acting = self.acting.lock().unwrap_or_else(PoisonError::into_inner);
        // Acquire pairs with the Release of the thread that had a view: what it wrote.
        if self.views.load(Ordering::Acquire) > 0 {
            return Err(PyBufferError::new_err(
                "there are views of the block: arrays, memoryviews",
            ));
        }
        let data = NonNull::new(self.data.load(Ordering::Relaxed)).ok_or_else(gone)?;
        // SAFETY: `into_raw` of this pool returned it; the null makes sure that it is taken once.
        let object = unsafe { self.pool.from_raw(data) };
        if object.is_ok() {
            self.data.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
        Ok(object)
    }
}

fn gone() -> PyErr {
    PyValueError::new_err("the block is closed: it was freed, or handed over")
}

#[pymethods]
impl Block {
    /// Returns a numpy array over the block, which keeps it. Give ``dtype`` and ``shape`` where it
    /// is of another type than it was allocated for: a claimed block is one of bytes.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Of an object without a buffer numpy would make an array of one object.
        if slf.get().data.load(Ordering::Relaxed).is_null() {
            return Err(gone());
        }
        shown_as_array(slf.as_any(), dtype, shape)
    }

    /// Frees the block: gives it back to the pool.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.take(py)?.free().raised(py)
    }

    /// Frees the block, if it was not freed or handed over before: what ``with`` does at the end of
    /// its block. Raises ``BufferError`` as long as there is a view of it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.data.load(Ordering::Relaxed).is_null() { Ok(()) } else { self.free(py) }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().data.load(Ordering::Relaxed).is_null() { Err(gone()) } else { Ok(slf) }
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    /// Hands the block over in one atomic step: any process that has the number may ``Pool.claim``
    /// it, or only the process of that peer. Offered to any process, it stays until it is claimed;
    /// offered to one, it is free once that has ended.
    #[pyo3(signature = (to=None))]
    fn offer(&self, py: Python<'_>, to: Option<&Bound<'_, Peer>>) -> PyResult<u64> {
        let object = self.take(py)?;
        let offset = match to {
            None => object.into_offset(),
            Some(to) => object.into_offset_for(&to.get().peer()),
        };
        Ok(offset.raised(py)?.as_u64())
    }

    /// Turns the block into an object that several processes hold, and none may write any more.
    fn share(&self, py: Python<'_>) -> PyResult<SharedObject> {
        // SAFETY: `SharedObject` keeps the pool, and drops it last.
        let pool = unsafe { lender(&*self.pool) };
        let data = self.take(py)?.into_raw();
        // SAFETY: `take` has just found that it is this pool's, and that this thread alone has it.
        let object = unsafe { pool.from_raw(data) }.raised(py)?;
        let shared = object.share().raised(py)?;
        SharedObject::new(shared, Some(self.layout.clone()), &self.pool, &self.of)
    }

    fn __len__(&self) -> usize {
        self.len
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let _acting = this.acting.lock().unwrap_or_else(PoisonError::into_inner);
        let data = this.data.load(Ordering::Relaxed);
        if data.is_null() {
            return Err(gone());
        }
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory while
        // there is a view.
        unsafe { this.layout.show(view, flags, slf.clone().into_any(), data, this.len, false) }?;
        this.views.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, Ordering::Release);
    }

    fn __repr__(&self) -> String {
        let is_there = !self.data.load(Ordering::Relaxed).is_null();
        let state = if is_there { Ok(format!("{} bytes", self.len)) } else { Err(gone()) };
        self.of.repr("Block", state)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let data = NonNull::new(*self.data.get_mut());
        // In a forked child it belongs to the parent.
        if let Some(data) = data.filter(|_| process() == self.process) {
            // SAFETY: the pointer came from `into_raw`, and `take` leaves none behind, so it is
            // taken once. The process's end makes up for a free that fails.
            drop(unsafe { self.pool.from_raw(data) });
        }
    }
}

/// A pool's memory that several processes hold, each by name, to read: ``shared.numpy()``,
/// ``memoryview(shared)``. It stays as long as one of them is alive and holds it; views of it keep
/// it.
///
/// >>> pool = Pool("maps", folder)
/// >>> block = pool.alloc(3)
/// >>> with memoryview(block) as view:
/// ...     view[:] = b"map"
/// >>> shared = block.share()
/// >>> bytes(pool.join(shared.offset)), memoryview(shared).readonly
/// (b'map', True)
/// >>> offset = shared.offset
/// >>> del shared
/// >>> try:
/// ...     pool.join(offset)
/// ... except Gone:
/// ...     print("no process holds it any more")
/// no process holds it any more
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct SharedObject {
    held: Open<Shared>,
    layout: Layout,
    offset: u64,
    len: usize,
    of: Named,
}

/// What a process holds of it, shared with its views.
struct Shared {
    // They are dropped in this order.
    shared: pool::SharedObject<'static>,
    _pool: Arc<pool::Pool>,
}

impl SharedObject {
    fn new(
        shared: pool::SharedObject<'static>,
        layout: Option<Layout>,
        pool: &Arc<pool::Pool>,
        of: &Named,
    ) -> PyResult<SharedObject> {
        let layout = match layout {
            Some(layout) => layout,
            None => Layout::bytes_checked(shared.len())?,
        };
        let (offset, len) = (shared.offset().as_u64(), shared.len());
        let held = Open::new(Shared { shared, _pool: Arc::clone(pool) });
        Ok(SharedObject { held, layout, offset, len, of: of.clone() })
    }
}

#[pymethods]
impl SharedObject {
    /// The number by which other processes ``Pool.join``: valid as long as any process holds the
    /// object.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns a read-only numpy array over it, which keeps it.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().held.get()?;
        shown_as_array(slf.as_any(), dtype, shape)
    }

    fn __len__(&self) -> usize {
        self.len
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let held = this.held.get()?;
        let (data, len) = (held.shared.as_ptr().cast_mut(), this.len);
        let layout = &raw const this.layout;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the layout. The
        // view keeps the memory.
        unsafe {
            (*layout).show(view, flags, slf.into_any(), data, len, true)?;
            (*view).internal = Arc::into_raw(held).cast_mut().cast();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` has put it there, and each view is released once.
        drop(unsafe { Arc::from_raw((*view).internal.cast::<Shared>()) });
    }

    /// Closes it: this process holds it no more when the last view of it is gone, and using it
    /// raises ``ValueError``.
    fn close(&self) {
        self.held.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().held.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        self.of.repr("SharedObject", self.held.get().map(|_| format!("{} bytes", self.len)))
    }
}
