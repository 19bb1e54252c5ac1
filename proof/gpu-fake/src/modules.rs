//! Modules: which kernels a PTX text declares, and with which parameters. What they do is in
//! `kernels.rs`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::contexts::put;
use crate::control::{self, Needs, VIOLATIONS, enter};
use crate::kernels::{self, Body, Threads};
use crate::streams::{self, Step};
use crate::{
    Code, INVALID_HANDLE, INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED,
    SUCCESS, code, lock,
};

/// A `.entry` of the text.
struct Entry {
    name: String,
    /// How many bytes each parameter has.
    sizes: Vec<usize>,
    /// How many launches are not over.
    pending: Arc<AtomicU64>,
}

struct Module {
    entries: Vec<Arc<Entry>>,
}

/// By handle: the module that it is of, and which.
type Functions = HashMap<usize, (usize, Arc<Entry>)>;

/// By handles that are never used again.
static MODULES: Mutex<Option<HashMap<usize, Module>>> = Mutex::new(None);
static FUNCTIONS: Mutex<Option<Functions>> = Mutex::new(None);
static NEXT: AtomicUsize = AtomicUsize::new(16);

pub(crate) fn count() -> u64 {
    lock(&MODULES).as_ref().map_or(0, |modules| modules.len() as u64)
}

/// Returns the entries of a PTX text; its instructions are not looked at.
fn parse(text: &str) -> Option<Vec<Arc<Entry>>> {
    let has = |directive: &str| text.lines().any(|line| line.trim_start().starts_with(directive));
    if !has(".version") || !has(".target") || !has(".address_size 64") {
        return None;
    }
    let entry = |rest: &str| {
        let (name, rest) = rest.split_once('(')?;
        let parameters =
            rest.split_once(')')?.0.split(',').filter(|parameter| !parameter.trim().is_empty());
        let sizes = parameters.map(|parameter| {
            parameter.split_whitespace().find_map(|word| match word {
                ".u64" | ".s64" | ".b64" | ".f64" => Some(8),
                ".u32" | ".s32" | ".b32" | ".f32" => Some(4),
                _ => None,
            })
        });
        let (name, sizes) = (name.trim().to_owned(), sizes.collect::<Option<_>>()?);
        Some(Arc::new(Entry { name, sizes, pending: Arc::default() }))
    };
    text.split(".entry").skip(1).map(entry).collect()
}

/// Returns whether the first directive is the one that PTX begins with.
fn is_ptx(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let mut code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.next().is_some_and(|line| line.starts_with(".version"))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> Code {
    code(enter("cuModuleLoadData", Needs::Sound).and_then(|()| {
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's: PTX that ends with NUL. Of cubins this driver knows nothing.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        // As seen of driver 580: what does not begin as PTX does is no image at all.
        let text = text.to_str().ok().filter(|text| is_ptx(text)).ok_or(INVALID_IMAGE)?;
        let entries = parse(text).ok_or(INVALID_PTX)?;
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { put(module, ptr::without_provenance_mut(handle))? };
        lock(&MODULES).get_or_insert_default().insert(handle, Module { entries });
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: *mut c_void) -> Code {
    code(enter("cuModuleUnload", Needs::Context).and_then(|()| {
        let unloaded = lock(&MODULES).as_mut().and_then(|modules| modules.remove(&module.addr()));
        let unloaded = unloaded.ok_or(INVALID_HANDLE)?;
        let pending: u64 =
            unloaded.entries.iter().map(|entry| entry.pending.load(Ordering::Relaxed)).sum();
        VIOLATIONS.fetch_add(pending, Ordering::Relaxed);
        lock(&FUNCTIONS).get_or_insert_default().retain(|_, (of, _)| *of != module.addr());
        Ok(())
    }))
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> Code {
    code(enter("cuModuleGetFunction", Needs::Sound).and_then(|()| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's C string.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let modules = lock(&MODULES);
        let loaded = modules
            .as_ref()
            .and_then(|modules| modules.get(&module.addr()))
            .ok_or(INVALID_HANDLE)?;
        let entry = loaded.entries.iter().find(|entry| entry.name == name).ok_or(NOT_FOUND)?;
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { put(function, ptr::without_provenance_mut(handle))? };
        lock(&FUNCTIONS).get_or_insert_default().insert(handle, (module.addr(), Arc::clone(entry)));
        Ok(())
    }))
}

/// Returns the values of a launch's parameters.
///
/// # Safety
/// `places` has one for each of them, and each has so many bytes.
unsafe fn read(places: *mut *mut c_void, sizes: &[usize]) -> Result<Vec<u64>, Code> {
    let value = |(number, &size): (usize, &usize)| {
        // SAFETY: the caller's promise.
        let place = unsafe { *places.add(number) };
        if place.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the same.
        Ok(unsafe {
            if size == 8 { place.cast::<u64>().read() } else { place.cast::<u32>().read().into() }
        })
    };
    if places.is_null() && !sizes.is_empty() {
        return Err(INVALID_VALUE);
    }
    sizes.iter().enumerate().map(value).collect()
}

/// # Safety
/// As cuda.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    blocks_x: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    code(enter("cuLaunchKernel", Needs::Sound).and_then(|()| {
        let functions = lock(&FUNCTIONS);
        let (_, entry) =
            functions.as_ref().and_then(|all| all.get(&function.addr())).ok_or(INVALID_HANDLE)?;
        let (blocks, threads) = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
        // Limits of sm_50 and later.
        let within = |all: [u32; 3], most: [u32; 3]| {
            all.iter().zip(most).all(|(&own, most)| 0 < own && own <= most)
        };
        let fits =
            within(blocks, [i32::MAX as u32, 65535, 65535]) && within(threads, [1024, 1024, 64]);
        if !fits || threads.iter().product::<u32>() > 1024 || shared_bytes > 48 << 10 {
            return Err(INVALID_VALUE);
        }
        // The other way to hand over parameters is not known here.
        if !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: the caller's.
        let values = unsafe { read(parameters, &entry.sizes)? };
        let (body, sizes): (Body, _) = kernels::find(&entry.name).ok_or(NOT_SUPPORTED)?;
        if sizes != entry.sizes {
            return Err(INVALID_PTX);
        }
        let total = |axis: usize| u64::from(blocks[axis]) * u64::from(threads[axis]);
        let threads = Threads { x: total(0), y: total(1) };
        let pending = Arc::clone(&entry.pending);
        let stream = streams::find(stream)?;
        pending.fetch_add(1, Ordering::Relaxed);
        stream.enqueue(Step::Do(Box::new(move || {
            let result = body(threads, &values).err().unwrap_or(SUCCESS);
            if result != SUCCESS {
                control::break_context(result);
            }
            pending.fetch_sub(1, Ordering::Relaxed);
        })));
        Ok(())
    }))
}
