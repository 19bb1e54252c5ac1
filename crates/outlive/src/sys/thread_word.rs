//! A thread-local word that a shared library reaches cheaply.
//!
//! A shared library finds a `thread_local!` by a call of `__tls_get_addr`: some 15 instructions,
//! which with the saving of all registers around them are a good part of a lock's cost. This file
//! finds its word by a descriptor (TLSDESC): a call that changes one register and, if the library
//! was loaded when the program started, is two instructions long. In a program that links this
//! code, the linker turns it into a constant. Rust has no stable option that makes `thread_local!`
//! do the same, hence the assembly: each lock and each unlock through C would otherwise make the call
//! (doc/performance.md, "The thread's page", has the counts). Not the initial-exec model: `dlopen`
//! cannot always load libraries that use it.
//!
//! For x86-64, with the feature `shared-library`. Elsewhere, in code for AVX-512 (whose registers
//! the call below does not save), and in tests under loom, a `thread_local!` does.

// Hidden, so each library and program has its own; the linker refuses a second one of this version
// in one of them.
core::arch::global_asm!(
    ".pushsection .tbss.outlive_thread_word,\"awT\",@nobits",
    ".balign 8",
    ".hidden outlive_thread_word_0_1",
    ".globl outlive_thread_word_0_1",
    ".type outlive_thread_word_0_1, @tls_object",
    ".size outlive_thread_word_0_1, 8",
    "outlive_thread_word_0_1: .zero 8",
    ".popsection",
);

/// Returns the word's distance from the thread pointer.
#[inline]
fn place() -> usize {
    let place;
    // SAFETY: the sequence that the ABI prescribes; it changes rax and the flags. The vector
    // registers are marked as changed as well, because some versions of glibc lose them (its bug
    // 31372) when the library was loaded later.
    unsafe {
        core::arch::asm!(
            "lea rax, [rip + outlive_thread_word_0_1@tlsdesc]",
            "call qword ptr [rax + outlive_thread_word_0_1@tlscall]",
            out("rax") place,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _,
            out("xmm14") _, out("xmm15") _,
            options(pure, nomem),
        );
    }
    place
}

/// Returns the calling thread's word; 0 at first.
#[inline]
pub(crate) fn get() -> usize {
    let word;
    // SAFETY: `place` is the offset of this thread's own eight bytes, which the linker reserved
    // above.
    unsafe {
        core::arch::asm!("mov {0}, fs:[{1}]", out(reg) word, in(reg) place(), options(pure, readonly, nostack))
    };
    word
}

/// Changes the calling thread's word.
pub(crate) fn set(word: usize) {
    // SAFETY: `place` is the offset of this thread's own eight bytes, which the linker reserved
    // above.
    unsafe {
        core::arch::asm!("mov fs:[{0}], {1}", in(reg) place(), in(reg) word, options(nostack))
    };
}
