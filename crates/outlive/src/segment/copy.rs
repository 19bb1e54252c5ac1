//! Copying bytes that another process may be writing at the same moment.
//!
//! It copies word by word, by atomics: bytes that were read while they were written are discarded
//! when the stamp says so, but reading them is no data race. All orders are Relaxed: the fences are
//! with what says that they are whole: a state's stamps, a job's word.

use crate::shim::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();
/// Words that are copied without a check for the end.
const STRIDE: usize = 8;

/// Copies the first `len` bytes out of the words.
///
/// # Safety
/// The caller guarantees that `len` bytes can be written at `to`, and that `words` hold as many.
#[inline]
pub(crate) unsafe fn copy_out(words: &[AtomicU64], to: *mut u8, len: usize) {
    debug_assert!(len <= words.len() * WORD);
    let whole = len / WORD;
    let mut at = 0;
    while at + STRIDE <= whole {
        for word in 0..STRIDE {
            // SAFETY: `at + word` is below `whole`; the caller guarantees `len` bytes on both
            // sides.
            unsafe {
                let value = words.get_unchecked(at + word).load(Ordering::Relaxed);
                to.add((at + word) * WORD).cast::<u64>().write_unaligned(value);
            }
        }
        at += STRIDE;
    }
    while at < whole {
        // SAFETY: `at` is below `whole`; the caller guarantees `len` bytes on both sides.
        unsafe {
            to.add(at * WORD)
                .cast::<u64>()
                .write_unaligned(words.get_unchecked(at).load(Ordering::Relaxed))
        };
        at += 1;
    }
    if !len.is_multiple_of(WORD) {
        // SAFETY: `words` has one more than `whole`, for the bytes that are left; the caller
        // guarantees `len` bytes at `to`.
        unsafe {
            let last = words.get_unchecked(whole).load(Ordering::Relaxed).to_ne_bytes();
            core::ptr::copy_nonoverlapping(last.as_ptr(), to.add(whole * WORD), len % WORD);
        }
    }
}

/// Copies the bytes into the words; the rest of the last word becomes 0. Bytes that do not fit are
/// left out.
#[inline]
pub(crate) fn copy_in(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        let bytes: Vec<u8> = (1..=200).collect();
        for len in 0..bytes.len() {
            let words: Vec<AtomicU64> =
                (0..len.div_ceil(WORD)).map(|_| AtomicU64::new(u64::MAX)).collect();
            copy_in(&words, &bytes[..len]);
            let mut back = vec![0xee; len + 8];
            // SAFETY: `words` and `back` both have `len` bytes.
            unsafe { copy_out(&words, back.as_mut_ptr(), len) };
            assert_eq!(back[..len], bytes[..len]);
            assert_eq!(back[len..], [0xee; 8], "nothing beyond");
        }
    }
}
