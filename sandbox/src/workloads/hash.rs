//! Stable hashes for names and labels: the same template gives the same name in every run.

use serde::Serialize;

/// Kubernetes' alphabet for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1a, 64 bits.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Ten characters for a template.
pub(crate) fn of<T: Serialize>(template: &T) -> String {
    let mut rest = number(serde_json::to_string(template).unwrap_or_default().as_bytes());
    let mut text = String::new();
    for _ in 0..10 {
        let at = usize::try_from(rest % 27).unwrap_or(0);
        text.extend(ALPHABET.get(at).map(|byte| char::from(*byte)));
        rest /= 27;
    }
    text
}
