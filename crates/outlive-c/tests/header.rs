//! `include/outlive.h` and `include/outlive_gpu.h` are what the sources say. cbindgen writes them,
//! and they are checked in, so that C programmers need no Rust.
//!
//! `cargo xtask header` writes them anew.

use std::path::{Path, PathBuf};

/// The order of the header's sections.
const GPU_SOURCES: [&str; 3] = ["gpu", "pinned", "device"];

/// The same.
const SOURCES: [&str; 38] = [
    "code",
    "opening",
    "deadline",
    "wait",
    "domain",
    "node",
    "watch",
    "record",
    "mutex",
    "condvar",
    "rwlock",
    "event",
    "once",
    "semaphore",
    "barrier",
    "payload",
    "queue",
    "jobs",
    "notifier",
    "topic_options",
    "topic",
    "config",
    "subscriber",
    "sample",
    "state",
    "rpc",
    "server",
    "client_watch",
    "parts",
    "stream_loan",
    "pool",
    "wait_set",
    "wait_sources",
    "wait_told",
    "stand_by",
    "pi_mutex",
    "ceiling_mutex",
    "reentrant_mutex",
];

const BEGINNING: &str = "\
/* Outlive: daemonless shared-memory IPC for Linux whose locks, queues and topics recover when any
 * participant is killed. This is the C interface, ABI version 1.
 *
 * cbindgen writes this file from the sources, which have the same comments: edit those.
 * doc/c-abi.md has the rules in full:
 *
 * - Functions return 0, or a positive number: an errno number where there is one (EOWNERDEAD,
 *   ETIMEDOUT, EPIPE, ...), else one of the OUTLIVE_ codes. outlive_last_error() returns the
 *   thread's last message. No function throws.
 * - `X_open(domain, name, how, ...)` returns a handle. `how` says whether the name must exist; the
 *   comment of `outlive_opening_t` lists the codes that all openings return. `X_close` ends a
 *   handle, and `X_release` what passes through (a loan, sample, job, call, reply, request, stream
 *   or shared object); passing NULL to either has no effect. When a call fails, a place for a handle
 *   holds NULL, and any other place is unchanged. NULL where something is needed gives EINVAL.
 * - A call that waits takes a deadline: outlive_after_ms(n), OUTLIVE_NEVER, OUTLIVE_TRY. It also
 *   ends when what it waits for can never come because a peer died.
 * - Mutexes, condition variables, rwlocks, events, latches, onces, semaphores and barriers are
 *   bytes in shared memory, used by their address, as with pthreads: named ones, or inside a
 *   record, a struct of your own. A lock belongs to the thread that took it.
 * - A forked child shares only shared memory with its parent: it opens its own handles, and holds
 *   none of its parent's locks.
 * - New versions only add: options structs begin with their size (use the INIT macros), and other
 *   structs never change.
 */";

const GPU_BEGINNING: &str = "\
/* Outlive for GPUs: topics whose payloads a GPU reads and writes in place. It is part of the same
 * library as outlive.h, whose rules hold here.
 *
 * cbindgen writes this file from the sources, which have the same comments: edit those.
 * doc/protocols/gpu.md has the argument.
 *
 * - The library is not linked with CUDA, and needs no header of CUDA's: outlive_gpu_open loads the
 *   driver, and returns ENODEV where there is none. A CUcontext and a CUstream are `void *` here, a
 *   CUdeviceptr is `uint64_t`. What the driver refuses is OUTLIVE_DRIVER.
 * - outlive_pinned_topic_open makes an ordinary topic, opened by outlive_topic_open, one for a GPU.
 *   Its subscribers are ordinary ones: outlive_pinned_topic_sample makes a sample that they have
 *   received one for the GPU.
 * - A device topic, outlive_device_topic_open, leaves its messages in the memory of one GPU, which
 *   all its processes use.
 * - A message becomes visible when the stream that writes it has got there; a sample stays held
 *   until the copies that read it have completed. No thread waits for either. If a process dies
 *   before, no process sees half a message.
 */";

const MACROS: &str = "\
#define OUTLIVE_ALIGNED(n) __attribute__((aligned(n)))

/** A primitive's place in a record: OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX). */
#define OUTLIVE_PLACE(type, member, kind) { offsetof(type, member), (kind), 0 }

/** In a struct: a semaphore with room for so many permits, or a barrier for so many participants:
 * OUTLIVE_SEMAPHORE_OF(3) slots; is used as &line->slots.semaphore. */
#define OUTLIVE_SEMAPHORE_OF(permit_count) struct { outlive_semaphore_t semaphore; uint32_t permits[permit_count]; }
#define OUTLIVE_BARRIER_OF(seat_count) struct { outlive_barrier_t barrier; uint32_t seats[seat_count]; }

/** The places of these: OUTLIVE_SEMAPHORE_PLACE(struct line, slots). That of a ceiling mutex has its
 * ceiling. */
#define OUTLIVE_SEMAPHORE_PLACE(type, member) \\
    { offsetof(type, member), OUTLIVE_SEMAPHORE, (uint32_t)(sizeof(((type *)0)->member.permits) / sizeof(uint32_t)) }
#define OUTLIVE_BARRIER_PLACE(type, member) \\
    { offsetof(type, member), OUTLIVE_BARRIER, (uint32_t)(sizeof(((type *)0)->member.seats) / sizeof(uint32_t)) }
#define OUTLIVE_CEILING_PLACE(type, member, ceiling) { offsetof(type, member), OUTLIVE_CEILING_MUTEX, (ceiling) }

/** In a struct: a text of at most so many bytes, a multiple of 4, and a list of at most so many items,
 * with room that is a multiple of 8 bytes; other numbers do not compile, because other languages have
 * another layout then. C++ has outlive::inline_string and outlive::inline_vec.
 *
 * struct scan { OUTLIVE_INLINE_STRING(32) name; OUTLIVE_INLINE_VEC(float, 16) ranges; };
 *
 * Any program may have written them, and may be writing still: OUTLIVE_STRING_SIZE and OUTLIVE_VEC_SIZE
 * read once how many bytes or items there are, and a length beyond the room counts as the room. A text
 * has no NUL behind it. OUTLIVE_STRING_SET(scan->name, \"front\", 5) writes one; false: no room. */
#define OUTLIVE_INLINE_STRING(room) struct { uint32_t length; char bytes[(room) % 4 == 0 ? (room) : -1]; }
#define OUTLIVE_INLINE_VEC(type, room) \\
    struct { uint64_t length; type items[sizeof(type) * (room) % 8 == 0 ? (room) : -1]; }
#define OUTLIVE_STRING_SIZE(text) outlive_string_size(&(text).length, sizeof((text).bytes))
#define OUTLIVE_VEC_SIZE(list) outlive_vec_size(&(list).length, sizeof((list).items) / sizeof((list).items[0]))
#define OUTLIVE_STRING_SET(text, from, size) \\
    outlive_string_set(&(text).length, (text).bytes, sizeof((text).bytes), (from), (size))
/** What these macros call. */
static inline size_t outlive_string_size(const volatile uint32_t *length, size_t room)
{
    size_t size = *length;
    return size < room ? size : room;
}
static inline size_t outlive_vec_size(const volatile uint64_t *length, size_t room)
{
    uint64_t size = *length;
    return size < room ? (size_t)size : room;
}
static inline bool outlive_string_set(uint32_t *length, char *bytes, size_t room, const char *from, size_t size)
{
    if (size > room)
        return false;
    memcpy(bytes, from, size);
    memset(bytes + size, 0, room - size);
    *length = (uint32_t)size;
    return true;
}

#ifndef __cplusplus
/** The description of a struct, in C; C++ has OUTLIVE_DESCRIBE (outlive/described.hpp):
 *
 * OUTLIVE_PAYLOAD(pose_payload, struct pose, \"Pose\", OUTLIVE_ARRAY_FIELD(struct pose, position),
 *                 OUTLIVE_FIELD(struct pose, heading));
 *
 * makes `pose_payload`, a static outlive_payload_t. Fields come in the order of their places. */
#define OUTLIVE_PAYLOAD(variable, type, type_name, ...) \\
    static const outlive_field_t variable##_fields[] = { __VA_ARGS__ }; \\
    static const outlive_payload_t variable = { type_name, sizeof(type), _Alignof(type), OUTLIVE_ENCODING_RAW, 0, \\
        variable##_fields, sizeof variable##_fields / sizeof variable##_fields[0] }

/** The description of messages in an encoding of their own, of which only the name is known:
 * OUTLIVE_ENCODED(pose_payload, OUTLIVE_ENCODING_CDR, \"geometry_msgs/msg/Pose\"); */
#define OUTLIVE_ENCODED(variable, encoding, type_name) \\
    static const outlive_payload_t variable = { type_name, 0, 0, encoding, 0, NULL, 0 }

/** A field that is a number, an array of numbers, an array of such arrays; one that is a struct, and
 * an array of structs, each with the name of their description. */
#define OUTLIVE_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member), { 0, 0, 0, 0 }, NULL }
#define OUTLIVE_ARRAY_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0]), \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), 0, 0, 0 }, NULL }
#define OUTLIVE_MATRIX_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0]), \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, NULL }
/* Arrays of three and of four extents, and of structs in two. */
#define OUTLIVE_ARRAY3_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0][0]), \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), \\
            OUTLIVE_EXTENT_OF(((type *)0)->member[0][0]), 0 }, NULL }
#define OUTLIVE_ARRAY4_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0][0][0]), \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), \\
            OUTLIVE_EXTENT_OF(((type *)0)->member[0][0]), OUTLIVE_EXTENT_OF(((type *)0)->member[0][0][0]) }, NULL }
#define OUTLIVE_STRUCT_MATRIX_FIELD(type, member, payload) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, &(payload) }
#define OUTLIVE_STRUCT_FIELD(type, member, payload) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { 0, 0, 0, 0 }, &(payload) }
#define OUTLIVE_STRUCT_ARRAY_FIELD(type, member, payload) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, \\
        { OUTLIVE_EXTENT_OF(((type *)0)->member), 0, 0, 0 }, &(payload) }
/** A field that is a text in place, a list of numbers, and a list of structs: what
 * OUTLIVE_INLINE_STRING and OUTLIVE_INLINE_VEC declare. At file scope, as OUTLIVE_PAYLOAD. */
#define OUTLIVE_STRING_FIELD(type, member) \\
    OUTLIVE_IN_PLACE_OF(type, member, 4, OUTLIVE_TYPE_U32, \"bytes\", OUTLIVE_TYPE_U8, sizeof(((type *)0)->member.bytes), NULL)
#define OUTLIVE_VEC_FIELD(type, member) \\
    OUTLIVE_IN_PLACE_OF(type, member, 8, OUTLIVE_TYPE_U64, \"items\", OUTLIVE_TYPE_OF(((type *)0)->member.items[0]), \\
        OUTLIVE_EXTENT_OF(((type *)0)->member.items), NULL)
#define OUTLIVE_STRUCT_VEC_FIELD(type, member, payload) \\
    OUTLIVE_IN_PLACE_OF(type, member, 8, OUTLIVE_TYPE_U64, \"items\", OUTLIVE_TYPE_STRUCT, \\
        OUTLIVE_EXTENT_OF(((type *)0)->member.items), &(payload))
#define OUTLIVE_IN_PLACE_OF(type, member, align, length_type, name, item_type, room, nested) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { 0, 0, 0, 0 }, &(const outlive_payload_t){ \"\", \\
        sizeof(((type *)0)->member), align, OUTLIVE_ENCODING_RAW, 0, (const outlive_field_t[]){ \\
            { \"length\", 0, length_type, { 0, 0, 0, 0 }, NULL }, { name, align, item_type, { room, 0, 0, 0 }, nested } }, 2 } }
/** The last field of a struct that ends in a flexible array member, of numbers or of structs: a message
 * has any number of them behind the struct, which ends where they begin.
 *
 * struct detections { uint64_t stamp; struct rect boxes[]; };
 * OUTLIVE_PAYLOAD(detections_payload, struct detections, \"Detections\", OUTLIVE_FIELD(struct detections, stamp),
 *                 OUTLIVE_STRUCT_TAIL_FIELD(struct detections, boxes, rect_payload)); */
#define OUTLIVE_TAIL_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0]), { OUTLIVE_TAIL, 0, 0, 0 }, NULL }
/* Each item is an array of numbers. */
#define OUTLIVE_ARRAY_TAIL_FIELD(type, member) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0]), \\
        { OUTLIVE_TAIL, OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, NULL }
#define OUTLIVE_STRUCT_TAIL_FIELD(type, member, payload) \\
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { OUTLIVE_TAIL, 0, 0, 0 }, &(payload) }
/** The bytes of a message with so many items in its tail, and how many items a message of so many bytes
 * has: OUTLIVE_TAIL_SIZE(struct detections, boxes, 3). */
#define OUTLIVE_TAIL_SIZE(type, member, count) \\
    (offsetof(type, member) + (size_t)(count) * sizeof(((type *)0)->member[0]))
#define OUTLIVE_TAIL_COUNT(type, member, size) \\
    ((size) < offsetof(type, member) ? (size_t)0 : ((size) - offsetof(type, member)) / sizeof(((type *)0)->member[0]))
/* An array of no items does not compile. */
#define OUTLIVE_EXTENT_OF(array) \\
    (sizeof(array) / sizeof((array)[0]) * sizeof(char[sizeof(array) == 0 ? -1 : 1]))
#define OUTLIVE_TYPE_OF(value) _Generic((value), _Bool: OUTLIVE_TYPE_BOOL, char: OUTLIVE_TYPE_U8, \\
    unsigned char: OUTLIVE_TYPE_U8, signed char: OUTLIVE_TYPE_I8, \\
    unsigned short: OUTLIVE_TYPE_U16, short: OUTLIVE_TYPE_I16, unsigned: OUTLIVE_TYPE_U32, int: OUTLIVE_TYPE_I32, \\
    unsigned long: OUTLIVE_TYPE_U64, long: OUTLIVE_TYPE_I64, \\
    unsigned long long: OUTLIVE_TYPE_U64, long long: OUTLIVE_TYPE_I64, \\
    float: OUTLIVE_TYPE_F32, double: OUTLIVE_TYPE_F64)
#endif

#define OUTLIVE_DOMAIN_OPTIONS_INIT { sizeof(outlive_domain_options_t), NULL, NULL, NULL, 0, 0, 0, 0 }
#define OUTLIVE_QUEUE_OPTIONS_INIT { sizeof(outlive_queue_options_t), 0, 0, 0, 0, 0, 0, 0, NULL }
#define OUTLIVE_JOB_QUEUE_OPTIONS_INIT { sizeof(outlive_job_queue_options_t), 0, 0, 0, 0 }
#define OUTLIVE_NOTIFIER_OPTIONS_INIT { sizeof(outlive_notifier_options_t), 0, 0, 0, 0, 0 }
#define OUTLIVE_TOPIC_OPTIONS_INIT { sizeof(outlive_topic_options_t), 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_PUBLISHER_OPTIONS_INIT { sizeof(outlive_publisher_options_t), 0, 0, 0 }
#define OUTLIVE_SUBSCRIBER_OPTIONS_INIT { sizeof(outlive_subscriber_options_t), 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_SERVICE_OPTIONS_INIT { sizeof(outlive_service_options_t), 0, 0, 0, OUTLIVE_TRY, NULL, NULL, 0 }
#define OUTLIVE_POOL_OPTIONS_INIT { sizeof(outlive_pool_options_t), 0, 0, NULL, 0, 0 }";

/// The end of outlive.h.
const TSAN: &str = "\
/* ThreadSanitizer is told what the calls put in order. */
#if defined(__SANITIZE_THREAD__)
#include \"outlive_tsan.h\"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include \"outlive_tsan.h\"
#endif
#endif
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// What both headers have in common.
fn config(beginning: &str, guard: &str) -> cbindgen::Config {
    cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(beginning.to_owned()),
        include_guard: Some(guard.to_owned()),
        cpp_compat: true,
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 120,
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h", "string.h"].map(str::to_owned).to_vec(),
        layout: cbindgen::LayoutConfig {
            aligned_n: Some("OUTLIVE_ALIGNED".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// The headers by name.
fn generated() -> [(&'static str, String); 2] {
    let ours = config(BEGINNING, "OUTLIVE_H");
    let ours = cbindgen::Config {
        after_includes: Some(format!("\n{MACROS}")),
        trailer: Some(TSAN.to_owned()),
        ..ours
    };
    let gpu = config(GPU_BEGINNING, "OUTLIVE_GPU_H");
    let gpu = cbindgen::Config {
        sys_includes: Vec::new(),
        includes: vec!["outlive.h".to_owned()],
        ..gpu
    };
    [("outlive.h", generate(ours, &SOURCES)), ("outlive_gpu.h", generate(gpu, &GPU_SOURCES))]
}

fn generate(config: cbindgen::Config, sources: &[&str]) -> String {
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        let path = root().join("src").join(source).with_extension("rs");
        assert!(path.exists(), "{} is not there", path.display());
        builder = builder.with_src(path);
    }
    let mut bytes = Vec::new();
    builder.generate().expect("cbindgen understands the sources").write(&mut bytes);
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn the_header_is_what_the_sources_say() {
    for (name, header) in generated() {
        let path = root().join("include").join(name);
        if std::env::var_os("OUTLIVE_WRITE_HEADER").is_some() {
            std::fs::write(&path, &header).expect("written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == header,
            "include/{name} is not what the sources say: run cargo xtask header"
        );
    }
}

/// Every source that declares a function is in the list above.
#[test]
fn no_function_is_left_out() {
    let header: String = generated().map(|(_, header)| header).concat();
    for source in std::fs::read_dir(root().join("src")).expect("is there") {
        let text = std::fs::read_to_string(source.expect("an entry").path()).expect("text");
        for line in text.lines().filter(|line| line.contains("extern \"C\" fn outlive_")) {
            let name =
                line.split_once("fn ").expect("a function").1.split('(').next().expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
        }
    }
}

/// C++ has all that C has: the calls that outlive.hpp makes in another way are named here.
#[test]
fn cpp_has_every_function() {
    // A deadline of `at_once`; `Deadline` itself.
    const OTHERWISE: [&str; 2] = ["outlive_mutex_trylock", "outlive_after_ms"];
    let mut cpp = String::new();
    for file in std::fs::read_dir(root().join("include/outlive")).expect("is there") {
        cpp += &std::fs::read_to_string(file.expect("an entry").path()).expect("text");
    }
    let [(_, header), _] = generated();
    let words = header.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
    let calls = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    let calls = calls.filter(|name| name.starts_with("outlive_") && !OTHERWISE.contains(name));
    let lacking: std::collections::BTreeSet<&str> =
        calls.filter(|name| !cpp.contains(name)).collect();
    assert!(lacking.is_empty(), "outlive.hpp lacks {lacking:?}");
}
