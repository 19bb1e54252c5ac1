//! The entry points of the CUDA driver that this crate uses, by the names under which libcuda.so.1
//! exports them.
//!
//! Types and numbers are those of cuda.h: `CUdevice` and `CUresult` are ints, `CUdeviceptr` 64
//! bits, contexts, streams and events pointers. Where the header's macros lead to a second version
//! (`_v2`), so do the names here.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

/// `CUresult`.
pub(crate) type Code = c_int;
/// `CUdevice`.
pub(crate) type Device = c_int;
/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`.
pub(crate) type Handle = *mut c_void;
/// `CUdeviceptr`.
pub(crate) type Address = u64;
/// `CUhostFn`.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `CUmemGenericAllocationHandle`.
pub(crate) type BlockHandle = u64;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct BlockProperties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(crate) struct AccessOf {
    location: Location,
    flags: c_int,
}

const _: () = assert!(size_of::<BlockProperties>() == 32 && size_of::<AccessOf>() == 12);

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(crate) const AS_FILE: c_int = 1;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(crate) const MINIMUM: c_int = 0;

/// The access of a device to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// `CU_MEM_ACCESS_FLAGS_PROT_READ`.
    Read = 1,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
    ReadWrite = 3,
}

impl Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    fn of(device: Device) -> Location {
        Location { kind: 1, id: device }
    }
}

impl BlockProperties {
    /// Properties of memory on that device that can be exported as a file
    /// (`CU_MEM_ALLOCATION_TYPE_PINNED` is the only kind).
    pub(crate) fn on(device: Device) -> BlockProperties {
        let (location, windows) = (Location::of(device), std::ptr::null_mut());
        BlockProperties { kind: 1, handle_types: AS_FILE, location, windows, flags: [0; 8] }
    }
}

impl AccessOf {
    pub(crate) fn new(device: Device, may: May) -> AccessOf {
        AccessOf { location: Location::of(device), flags: may as c_int }
    }
}

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// `CU_STREAM_NON_BLOCKING`: it and the legacy default stream do not wait for each other.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;

/// `CU_MEMHOSTREGISTER_PORTABLE`: for all contexts.
pub(crate) const REGISTER_PORTABLE: c_uint = 1;
/// `CU_MEMHOSTREGISTER_READ_ONLY`.
pub(crate) const REGISTER_READ_ONLY: c_uint = 8;

/// `CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED`.
pub(crate) const HOST_REGISTER_SUPPORTED: c_int = 99;
/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES`.
pub(crate) const USES_HOST_PAGE_TABLES: c_int = 100;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`.
pub(crate) const BLOCKS_SUPPORTED: c_int = 102;
/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`.
pub(crate) const AS_FILE_SUPPORTED: c_int = 103;
/// `CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED`.
pub(crate) const READ_ONLY_HOST_REGISTER_SUPPORTED: c_int = 113;

macro_rules! entry_points {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver's functions, found by name.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Api {
            /// Looks all of them up. `Err`: the one that is missing.
            ///
            /// # Safety
            /// The caller guarantees that `find` returns a function of the CUDA driver of that
            /// name, or NULL.
            pub(crate) unsafe fn find(find: impl Fn(&CStr) -> *mut c_void) -> Result<Api, &'static CStr> {
                Ok(Api {
                    $($name: {
                        let found = find($symbol);
                        if found.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the caller guarantees a function of that name; the signature is
                        // cuda.h's.
                        unsafe {
                            core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> Code>(found)
                        }
                    },)*
                })
            }
        }
    };
}

entry_points! {
    init = c"cuInit" (c_uint);
    error_name = c"cuGetErrorName" (Code, *mut *const c_char);
    error_text = c"cuGetErrorString" (Code, *mut *const c_char);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device = c"cuDeviceGet" (*mut Device, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, Device);
    device_uuid = c"cuDeviceGetUuid_v2" (*mut [u8; 16], Device);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, Device);
    retain_primary_context = c"cuDevicePrimaryCtxRetain" (*mut Handle, Device);
    release_primary_context = c"cuDevicePrimaryCtxRelease_v2" (Device);
    push_context = c"cuCtxPushCurrent_v2" (Handle);
    pop_context = c"cuCtxPopCurrent_v2" (*mut Handle);
    context_device = c"cuCtxGetDevice" (*mut Device);
    create_stream = c"cuStreamCreate" (*mut Handle, c_uint);
    destroy_stream = c"cuStreamDestroy_v2" (Handle);
    query_stream = c"cuStreamQuery" (Handle);
    synchronize_stream = c"cuStreamSynchronize" (Handle);
    stream_is_capturing = c"cuStreamIsCapturing" (Handle, *mut c_int);
    stream_wait_event = c"cuStreamWaitEvent" (Handle, Handle, c_uint);
    create_event = c"cuEventCreate" (*mut Handle, c_uint);
    destroy_event = c"cuEventDestroy_v2" (Handle);
    record_event = c"cuEventRecord" (Handle, Handle);
    launch_host_function = c"cuLaunchHostFunc" (Handle, HostFunction, *mut c_void);
    allocate = c"cuMemAlloc_v2" (*mut Address, usize);
    free = c"cuMemFree_v2" (Address);
    copy_to_device = c"cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Handle);
    copy_from_device = c"cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Handle);
    copy_on_device = c"cuMemcpyDtoDAsync_v2" (Address, Address, usize, Handle);
    fill = c"cuMemsetD8Async" (Address, u8, usize, Handle);
    allocate_host = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host = c"cuMemFreeHost" (*mut c_void);
    register = c"cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    unregister = c"cuMemHostUnregister" (*mut c_void);
    granularity = c"cuMemGetAllocationGranularity" (*mut usize, *const BlockProperties, c_int);
    create_block = c"cuMemCreate" (*mut BlockHandle, usize, *const BlockProperties, c_ulonglong);
    release_block = c"cuMemRelease" (BlockHandle);
    export_block = c"cuMemExportToShareableHandle" (*mut c_void, BlockHandle, c_int, c_ulonglong);
    import_block = c"cuMemImportFromShareableHandle" (*mut BlockHandle, *mut c_void, c_int);
    reserve_addresses = c"cuMemAddressReserve" (*mut Address, usize, usize, Address, c_ulonglong);
    free_addresses = c"cuMemAddressFree" (Address, usize);
    map_block = c"cuMemMap" (Address, usize, usize, BlockHandle, c_ulonglong);
    unmap_block = c"cuMemUnmap" (Address, usize);
    set_access = c"cuMemSetAccess" (Address, usize, *const AccessOf, usize);
    load_module = c"cuModuleLoadData" (*mut Handle, *const c_void);
    unload_module = c"cuModuleUnload" (Handle);
    function_of_module = c"cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch_kernel = c"cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
}
