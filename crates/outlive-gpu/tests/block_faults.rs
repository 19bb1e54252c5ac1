//! What the driver refuses of a device topic, and a context that breaks: told, nothing half done,
//! and no memory used that a device might still use.

mod fake;

use std::collections::BTreeSet;
use std::ffi::CStr;

use fake::scene::{BLOCK, OUT_OF_MEMORY, Scene, code_of};
use fake::{SOON, What, open_files};
use outlive_gpu::GpuError;

const ILLEGAL_ADDRESS: i32 = 700;

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let scene = Scene::new("refused");
    let publisher = scene.topic.publisher().expect("one");
    let nothing = scene.fake.count(What::Blocks);
    let making: [&CStr; 6] = [
        c"cuMemCreate",
        c"cuMemExportToShareableHandle",
        c"cuMemAddressReserve",
        c"cuMemMap",
        c"cuMemSetAccess",
        c"cuCtxPushCurrent",
    ];
    // The thread that answers, once.
    scene.fake.fail(c"cuMemCreate", 0, 801);
    assert_eq!(code_of(&publisher.loan(10)), Some(801));
    let files = open_files();
    for function in making {
        scene.fake.fail(function, 0, ILLEGAL_ADDRESS);
        let result = publisher.loan(10);
        assert_eq!(code_of(&result), Some(ILLEGAL_ADDRESS), "{function:?}");
        assert_eq!(
            (scene.fake.count(What::Blocks), open_files()),
            (nothing, files),
            "{function:?}"
        );
    }
    let loan = publisher.loan(10).expect("room");
    drop(loan);
    assert_eq!(scene.topic.exported_bytes(), BLOCK);
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn what_fails_behind_the_work_keeps_the_memory_out_of_use() {
    let scene = Scene::new("behind");
    let (publisher, mut subscriber) = scene.ends();
    let mut kept = BTreeSet::new();
    for function in [c"cuEventRecord", c"cuStreamWaitEvent", c"cuLaunchHostFunc"] {
        let loan = publisher.loan(1000).expect("room");
        let at = loan.address();
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        assert_eq!(
            code_of(&publisher.publish_on(loan, &scene.stream)),
            Some(OUT_OF_MEMORY),
            "{function:?}"
        );
        assert_eq!(publisher.due(), 0);
        kept.insert(at);
        let mut loan = publisher.loan(1000).expect("room");
        loan.written_on(&scene.stream);
        kept.insert(loan.address());
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        drop(loan);
        // A sample that the device may be reading for ever.
        let (at, result) = scene.publish(&publisher, 1, 1000);
        result.expect("due");
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        scene.fake.fail(function, 0, OUT_OF_MEMORY);
        assert_eq!(code_of(&sample.release_on(&scene.stream)), Some(OUT_OF_MEMORY), "{function:?}");
        kept.insert(at);
    }
    assert_eq!(kept.len(), 9);
    for number in 0..60 {
        let (at, result) = scene.publish(&publisher, number, 1000);
        result.expect("due");
        assert!(!kept.contains(&at), "a device may be there");
        drop(subscriber.recv_timeout(SOON).expect("no error").expect("comes"));
    }
    assert_eq!(scene.fake.count(What::Violations), 0);
}

#[test]
fn a_context_that_breaks_is_told_and_nothing_of_what_was_due_is_seen() {
    let scene = Scene::new("broken");
    let (publisher, mut subscriber) = scene.ends();
    let shut = scene.fake.shut();
    publisher.publish_on(publisher.loan(10).expect("room"), &scene.stream).expect("due");
    scene.fake.break_context(ILLEGAL_ADDRESS);
    drop(shut);
    assert_eq!(code_of(&publisher.wait_published_timeout(SOON)), Some(ILLEGAL_ADDRESS));
    assert_eq!(code_of(&scene.topic.wait_over_timeout(SOON)), Some(ILLEGAL_ADDRESS));
    assert!(subscriber.try_recv().expect("nothing is wrong with the topic").is_none());
}

#[test]
fn streams_that_are_captured_are_refused() {
    let scene = Scene::new("capture");
    let (publisher, mut subscriber) = scene.ends();
    let loan = publisher.loan(10).expect("room");
    scene.fake.set_attribute(-1, 1);
    assert_eq!(publisher.publish_on(loan, &scene.stream), Err(GpuError::Capturing));
    scene.fake.set_attribute(-1, 0);
    scene.publish(&publisher, 0, 10).1.expect("due");
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    scene.fake.set_attribute(-1, 1);
    assert_eq!(sample.hold_on(&scene.stream), Err(GpuError::Capturing));
    scene.fake.set_attribute(-1, 0);
}
