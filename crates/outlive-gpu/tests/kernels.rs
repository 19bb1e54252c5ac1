//! The examples' kernels, loaded and started: on any driver, as `device.rs`.

mod fake;

use fake::{Fake, What, bytes_of, on_device, pattern};
use outlive_gpu::{Argument, DeviceMemory, GpuError, Module, Stream};

const PTX: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(include_str!("../examples/kernels/kernels.ptx"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("the text has no NUL"),
};

#[test]
fn every_byte_is_added() {
    let fake = Fake::new("sum");
    {
        let gpu = fake.gpu();
        let stream = Stream::new(&gpu).expect("a stream");
        let kernel = Module::load(&gpu, PTX)
            .and_then(|module| module.kernel(c"outlive_sum"))
            .expect("a kernel");
        for len in [1, 15, 16, 17, 100_003] {
            let bytes = on_device(&gpu, &stream, &pattern(len as u64, len));
            let sum = on_device(&gpu, &stream, &[0; 8]);
            let arguments = [
                Argument::Address(bytes.address()),
                Argument::U64(len as u64),
                Argument::Address(sum.address()),
            ];
            // SAFETY: what the kernel declares; all of it stays until the sum is read.
            unsafe { kernel.launch([8, 1, 1], [256, 1, 1], &arguments, &stream) }
                .expect("enqueued");
            let sum = u64::from_ne_bytes(bytes_of(&sum, &stream).try_into().expect("8 bytes"));
            assert_eq!(
                sum,
                pattern(len as u64, len).into_iter().map(u64::from).sum::<u64>(),
                "{len} bytes"
            );
        }
    }
    fake.expect_clean();
}

#[test]
fn a_frame_and_its_edges() {
    let fake = Fake::new("edges");
    {
        let gpu = fake.gpu();
        let stream = Stream::new(&gpu).expect("a stream");
        let module = Module::load(&gpu, PTX).expect("kernels");
        let kernel = |name| module.kernel(name).expect("a kernel");
        let (render, filter) = (kernel(c"outlive_render"), kernel(c"outlive_filter"));
        // No multiple of a block.
        let (width, height) = (50_u32, 30_u32);
        let [frame, edges] =
            [0, 0].map(|_| DeviceMemory::new(&gpu, (4 * width * height) as usize).expect("memory"));
        let (blocks, threads) = ([width.div_ceil(16), height.div_ceil(16), 1], [16, 16, 1]);
        let size = [Argument::U32(width), Argument::U32(height)];
        let made = [Argument::Address(frame.address()), size[0], size[1], Argument::U32(7)];
        let filtered = [
            Argument::Address(frame.address()),
            Argument::Address(edges.address()),
            size[0],
            size[1],
        ];
        // SAFETY: what the kernels declare; all of it stays until it is read.
        unsafe {
            render.launch(blocks, threads, &made, &stream).expect("enqueued");
            filter.launch(blocks, threads, &filtered, &stream).expect("enqueued");
        }
        let (frame, edges) = (bytes_of(&frame, &stream), bytes_of(&edges, &stream));
        assert!(
            frame.chunks_exact(4).chain(edges.chunks_exact(4)).all(|pixel| pixel[3] == 255),
            "every pixel is made"
        );
        let sky = &frame[..4];
        assert!(sky[2] > sky[0], "the sky is blue: {sky:?}");
        let light = |bytes: &[u8]| {
            bytes.chunks_exact(4).filter(|pixel| pixel[0].max(pixel[1]).max(pixel[2]) > 64).count()
        };
        let [bright, edges] = [light(&frame), light(&edges)];
        assert!(edges > 20 && edges * 2 < bright, "{edges} of {bright} bright pixels lie at edges");
    }
    fake.expect_clean();
}

#[test]
fn what_cannot_be_loaded_or_run_is_told() {
    let fake = Fake::new("kernels");
    {
        let gpu = fake.gpu();
        let stream = Stream::new(&gpu).expect("a stream");
        let name_of = |error: Option<GpuError>| match error {
            Some(GpuError::Driver { function, name, .. }) => (function, name),
            other => panic!("{other:?}"),
        };
        let none = name_of(Module::load(&gpu, c"no kernels").err());
        assert_eq!(none, ("cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE".to_owned()));
        let begun = c".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry begun(";
        let none = name_of(Module::load(&gpu, begun).err());
        assert_eq!(none, ("cuModuleLoadData", "CUDA_ERROR_INVALID_PTX".to_owned()));
        let module = Module::load(&gpu, PTX).expect("kernels");
        let none = name_of(module.kernel(c"outlive_nothing").err());
        assert_eq!(none, ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND".to_owned()));
        let kernel = module.kernel(c"outlive_sum").expect("a kernel");
        let arguments = [Argument::Address(0), Argument::U64(0), Argument::Address(0)];
        // SAFETY: nothing of it is run: more threads than a block may have.
        let launched = unsafe { kernel.launch([1, 1, 1], [2048, 1, 1], &arguments, &stream) };
        assert_eq!(
            name_of(launched.err()),
            ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE".to_owned())
        );
    }
    fake.expect_clean();
}

/// On a GPU such a context can do nothing any more, nor can what other tests make of it.
#[test]
fn a_kernel_that_goes_astray_breaks_the_context() {
    let fake = Fake::new("astray");
    if fake.is_fake() == 0 {
        return;
    }
    {
        let gpu = fake.gpu();
        let stream = Stream::new(&gpu).expect("a stream");
        let kernel = Module::load(&gpu, PTX)
            .and_then(|module| module.kernel(c"outlive_sum"))
            .expect("a kernel");
        let arguments = [Argument::Address(16), Argument::U64(1), Argument::Address(16)];
        // SAFETY: of the fake driver, which looks at addresses.
        unsafe { kernel.launch([1, 1, 1], [32, 1, 1], &arguments, &stream) }.expect("enqueued");
        assert!(stream.synchronize().is_err());
        assert!(matches!(gpu.check(), Err(GpuError::Driver { code: 700, .. })));
        fake.break_context(0);
        assert_eq!(fake.count(What::Violations), 0);
    }
    fake.expect_clean();
}
