//! Files that a process registers in the domain's folder: nodes, and those of extensions.

use std::os::unix::fs::MetadataExt;

use crate::liveness::Ends;
use crate::{Domain, TokenId};

impl Domain {
    /// Returns the name by which an extension of Outlive registers a file of that process in the
    /// folder, as the sockets on which processes offer GPU memory: `.WORD-TOKEN`, the token in eight
    /// hexadecimal digits (doc/protocols/segment.md). When the process is dead, a sweep removes the
    /// file.
    ///
    /// # Panics
    /// If `word` is not of small letters alone.
    #[doc(hidden)]
    #[must_use]
    pub fn extension_file(word: &str, owner: TokenId) -> String {
        let name = format!(".{word}-{:08x}", owner.as_u32());
        assert_eq!(owner_of(&name), Some(owner), "a word of small letters: {word}");
        name
    }

    /// Returns whether that process has ended, or does not have the thing of that name mapped: it writes
    /// there no more. Its token reads dead some milliseconds before.
    ///
    /// # Errors
    /// The thing's file cannot be found.
    #[doc(hidden)]
    pub fn writes_no_more(&self, process: TokenId, thing: &str) -> std::io::Result<bool> {
        let facts = std::fs::metadata(self.path().join(thing))?;
        Ok(Ends::new(self.registry(), (facts.dev(), facts.ino())).has_ended(process))
    }
}

/// Returns the token in the name of an extension's file, `.WORD-TOKEN`: a word of small letters, and
/// eight hexadecimal digits.
pub(crate) fn owner_of(name: &str) -> Option<TokenId> {
    let (word, token) = name.strip_prefix('.')?.split_once('-')?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_token =
        token.len() == 8 && token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let token = u32::from_str_radix(token, 16).ok().filter(|_| is_word && is_token)?;
    TokenId::from_u32(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_that_form_have_an_owner() {
        let owner = |name| owner_of(name).map(TokenId::as_u32);
        assert_eq!(owner(".gpu-20010801"), Some(0x2001_0801));
        assert_eq!(owner(".anything-2003c0de"), Some(0x2003_c0de));
        let token = TokenId::from_u32(0x2001_0801).expect("a token");
        assert_eq!(Domain::extension_file("gpu", token), ".gpu-20010801");
        for name in [
            "gpu-20010801",
            ".20010801",
            ".-20010801",
            ".gpu-801",
            ".gpu-020010801",
            ".gpu-+2010801",
            ".gpu-2003C0DE",
            ".gpu-00000000",
            ".Gpu-20010801",
            ".gpu2-20010801",
            ".gpu-20010801-1",
            ".making-frames-12-0",
            ".tokens",
            ".lock-order",
        ] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
