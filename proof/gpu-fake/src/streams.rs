//! Streams, each a thread that does what is enqueued, in order; and events.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::contexts::put;
use crate::control::{self, INSIDE_HOST_FUNCTION, Needs, enter};
use crate::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY, code, lock};

/// What a stream does.
pub(crate) enum Step {
    /// A copy, or another thing that takes as long as it takes.
    Do(Box<dyn FnOnce() + Send>),
    Record(Arc<Mark>),
    Wait(Arc<Mark>),
    Call(unsafe extern "C" fn(*mut c_void), usize),
}

/// What an event was recorded as.
#[derive(Default)]
pub(crate) struct Mark {
    is_passed: Mutex<bool>,
    passed: Condvar,
}

pub(crate) struct Stream {
    steps: Sender<Step>,
    pending: Mutex<usize>,
    idle: Condvar,
}

static STREAMS: Mutex<Option<HashMap<usize, Arc<Stream>>>> = Mutex::new(None);
static NEXT: AtomicUsize = AtomicUsize::new(16);
pub(crate) static EVENTS: AtomicU64 = AtomicU64::new(0);
pub(crate) static HOST_FUNCTIONS: AtomicU64 = AtomicU64::new(0);
/// Host functions of independent streams may be called one after another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Event {
    last: Mutex<Arc<Mark>>,
}

impl Mark {
    fn pass(&self) {
        *lock(&self.is_passed) = true;
        self.passed.notify_all();
    }

    fn wait(&self) {
        let mut is_passed = lock(&self.is_passed);
        while !*is_passed {
            is_passed = self.passed.wait(is_passed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Stream {
    fn new() -> Arc<Stream> {
        let (steps, todo) = channel();
        let stream = Arc::new(Stream { steps, pending: Mutex::new(0), idle: Condvar::new() });
        let weak = Arc::downgrade(&stream);
        std::thread::spawn(move || {
            run(&todo, &|| {
                if let Some(stream) = weak.upgrade() {
                    *lock(&stream.pending) -= 1;
                    stream.idle.notify_all();
                }
            })
        });
        stream
    }

    pub(crate) fn enqueue(&self, step: Step) {
        if control::attribute(-4) != 0 {
            self.wait();
            take(step);
            return;
        }
        *lock(&self.pending) += 1;
        // Its thread ends with the stream only.
        let _ = self.steps.send(step);
    }

    pub(crate) fn wait(&self) {
        let mut pending = lock(&self.pending);
        while *pending > 0 {
            pending = self.idle.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn run(todo: &Receiver<Step>, done: &dyn Fn()) {
    for step in todo {
        control::pass_gate();
        take(step);
        done();
    }
}

fn take(step: Step) {
    let is_sound = control::broken().is_none();
    match step {
        // A thread that waits for it goes on, and finds the error.
        Step::Record(mark) => mark.pass(),
        Step::Wait(mark) => mark.wait(),
        Step::Do(work) if is_sound => work(),
        Step::Call(function, data) if is_sound => {
            let _one = lock(&ONE_AT_A_TIME);
            INSIDE_HOST_FUNCTION.set(true);
            // SAFETY: given to us with that function, for one call.
            unsafe { function(ptr::with_exposed_provenance_mut(data)) };
            INSIDE_HOST_FUNCTION.set(false);
            HOST_FUNCTIONS.fetch_add(1, Ordering::Relaxed);
        }
        Step::Do(_) | Step::Call(..) => {}
    }
}

/// Returns a stream by its handle; the default ones are made when they are first used.
pub(crate) fn find(handle: *mut c_void) -> Result<Arc<Stream>, Code> {
    let mut streams = lock(&STREAMS);
    let streams = streams.get_or_insert_default();
    if handle.addr() <= 2 {
        return Ok(Arc::clone(streams.entry(handle.addr()).or_insert_with(Stream::new)));
    }
    streams.get(&handle.addr()).cloned().ok_or(INVALID_HANDLE)
}

/// Returns how many streams were made and not destroyed; the default ones do not count.
pub(crate) fn count() -> u64 {
    lock(&STREAMS)
        .as_ref()
        .map_or(0, |streams| streams.keys().filter(|handle| **handle > 2).count() as u64)
}

pub(crate) fn wait_for_all() {
    let all: Vec<_> = lock(&STREAMS).iter().flat_map(|streams| streams.values().cloned()).collect();
    all.iter().for_each(|stream| stream.wait());
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> Code {
    code(enter("cuStreamCreate", Needs::Sound).and_then(|()| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { put(stream, ptr::without_provenance_mut(handle))? };
        lock(&STREAMS).get_or_insert_default().insert(handle, Stream::new());
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> Code {
    code(enter("cuStreamDestroy", Needs::Context).and_then(|()| {
        // What is enqueued is done still: its thread has it.
        let destroyed = lock(&STREAMS).as_mut().and_then(|streams| streams.remove(&stream.addr()));
        destroyed.map(drop).ok_or(INVALID_HANDLE)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: *mut c_void) -> Code {
    code(
        enter("cuStreamQuery", Needs::Sound).and_then(|()| {
            if *lock(&find(stream)?.pending) == 0 { Ok(()) } else { Err(NOT_READY) }
        }),
    )
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> Code {
    code(enter("cuStreamSynchronize", Needs::Sound).and_then(|()| {
        find(stream)?.wait();
        control::broken().map_or(Ok(()), Err)
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> Code {
    code(enter("cuStreamIsCapturing", Needs::Sound).and_then(|()| {
        find(stream)?;
        // SAFETY: the caller's. 1: it is; so says the attribute that no device has.
        unsafe { put(status, control::attribute(-1)) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _flags: c_uint) -> Code {
    code(enter("cuEventCreate", Needs::Sound).and_then(|()| {
        EVENTS.fetch_add(1, Ordering::Relaxed);
        // Never recorded: passed.
        let mark = Mark { is_passed: Mutex::new(true), passed: Condvar::new() };
        let made = Box::new(Event { last: Mutex::new(Arc::new(mark)) });
        // SAFETY: the caller's.
        unsafe { put(event, Box::into_raw(made).cast()) }
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> Code {
    code(enter("cuEventDestroy", Needs::Context).map(|()| {
        EVENTS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: of `cuEventCreate`, once, as the caller promises.
        drop(unsafe { Box::from_raw(event.cast::<Event>()) });
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    code(enter("cuEventRecord", Needs::Sound).and_then(|()| {
        let stream = find(stream)?;
        let mark = Arc::<Mark>::default();
        // SAFETY: of `cuEventCreate`, as the caller promises.
        *lock(unsafe { &(*event.cast::<Event>()).last }) = Arc::clone(&mark);
        stream.enqueue(Step::Record(mark));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(
    stream: *mut c_void,
    event: *mut c_void,
    _flags: c_uint,
) -> Code {
    code(enter("cuStreamWaitEvent", Needs::Sound).and_then(|()| {
        // SAFETY: of `cuEventCreate`, as the caller promises.
        let mark = Arc::clone(&lock(unsafe { &(*event.cast::<Event>()).last }));
        find(stream)?.enqueue(Step::Wait(mark));
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Code {
    code(enter("cuLaunchHostFunc", Needs::Sound).and_then(|()| {
        find(stream)?.enqueue(Step::Call(function, data.expose_provenance()));
        Ok(())
    }))
}
