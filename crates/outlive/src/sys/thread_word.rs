//! A thread-local word as a shared library has it cheaply.
//!
//! In a shared library a `thread_local!` is found by a call of `__tls_get_addr`, which some 15 instructions and the saving
//! of all registers around it make a good part of a lock. Here it is found by its descriptor (TLSDESC): a call that changes one
//! register and, where the library was there when the program started, is two instructions long. The linker makes a constant of
//! it in a program that the code is linked into. Not the initial-exec model: libraries that have it cannot always be loaded by
//! `dlopen`.
//!
//! For x86-64, with the feature `shared-library`; elsewhere, in code for AVX-512 (whose registers the call below does not give up), and in
//! tests under loom, `thread_local!` does.

// Hidden, so each library and program has its own; a second one of this version in one of them is refused by the linker.
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

/// Where the word lies, counted from the thread pointer.
#[inline]
fn place() -> usize {
    let place;
    // SAFETY: the sequence that the ABI prescribes; it changes rax and the flags. The vector registers are given up as well:
    // some versions of glibc lose them (its bug 31372) when the library was loaded later.
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

/// The calling thread's word; 0 at first.
#[inline]
pub(crate) fn get() -> usize {
    let word;
    // SAFETY: eight bytes of the thread's own.
    unsafe { core::arch::asm!("mov {0}, fs:[{1}]", out(reg) word, in(reg) place(), options(pure, readonly, nostack)) };
    word
}

/// Changes it.
pub(crate) fn set(word: usize) {
    // SAFETY: as above.
    unsafe { core::arch::asm!("mov fs:[{0}], {1}", in(reg) place(), in(reg) word, options(nostack)) };
}
