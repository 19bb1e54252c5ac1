//! C++ that is compiled when the benchmark runs, by whatever compiler there is: a program that was
//! built without Boost measures it wherever it is installed. CXX and CXXFLAGS are heeded.

use super::error::Error;
use super::scratch::Scratch;
use std::ffi::{CStr, CString, OsString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::{env, fs};

/// A loaded object. It is never unloaded.
pub struct Object(NonNull<c_void>);

// SAFETY: any thread may look up names with the handle.
unsafe impl Send for Object {}
// SAFETY: several threads may look up names with the handle at once.
unsafe impl Sync for Object {}

impl Object {
    /// Compiles source that needs Boost's headers, and loads it.
    pub fn of_boost(source: &str) -> Result<Self, Error> {
        // Not in /dev/shm, from which loading code is often forbidden.
        let scratch = Scratch::under(&env::temp_dir())?;
        let (path, object) = (scratch.path().join("boost.cpp"), scratch.path().join("boost.so"));
        fs::write(&path, source)
            .map_err(|source| Error::System { doing: "writing a C++ file", source })?;
        let compiler = env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
        let flags = env::var("CXXFLAGS").unwrap_or_default();
        let compiled = Command::new(&compiler)
            .args(["-O2", "-shared", "-fPIC", "-w"])
            .args(flags.split_ascii_whitespace())
            .arg("-o")
            .args([&object, &path])
            .arg("-pthread")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match compiled {
            Ok(status) if status.success() => {}
            Ok(_) => {
                return Err(Error::Refused(
                    "Boost.Interprocess's headers were not found (Debian: libboost-dev)".into(),
                ));
            }
            Err(_) => {
                let name = compiler.to_string_lossy();
                return Err(Error::Refused(format!(
                    "no C++ compiler '{name}' was found (Debian: g++ and libboost-dev)"
                )));
            }
        }
        let path = CString::new(object.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the object was made just now from our own source; its loading runs no code but
        // the C++ library's.
        let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        let refused =
            || Error::Refused("this program cannot load objects, so none that uses Boost".into());
        NonNull::new(loaded).map(Self).ok_or_else(refused)
    }

    /// Returns one of its functions.
    pub fn function(&self, name: &CStr) -> Result<*mut c_void, Error> {
        // SAFETY: a loaded object and a string with its NUL.
        let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if found.is_null() {
            Err(Error::Refused("the compiled object is not whole".into()))
        } else {
            Ok(found)
        }
    }
}
