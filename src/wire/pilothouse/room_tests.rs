#![allow(clippy::unwrap_used)]

use prost::Message;
use registry::{ApprovalId, ItemId, Timestamp};

use super::{PAGE_BYTES, Room, page, pb};

/// An entry of exactly that many bytes.
fn entry(bytes: usize) -> pb::OpenItem {
    let of = |thread: usize| pb::OpenItem {
        run: Some(pb::Run {
            thread: "x".repeat(thread),
            ..Default::default()
        }),
        item: None,
    };
    let around = bytes.saturating_sub(16);
    let entry = (around..=bytes).map(of);
    let mut exact = entry.filter(|entry| entry.encoded_len() == bytes);
    exact.next().unwrap()
}

/// B06: also where the entries fill a page to the byte.
#[test]
fn a_full_page_is_read_by_a_client_that_was_told_nothing() {
    let last = ItemId::Approval(ApprovalId::mint(Timestamp::from_ms(1), u128::MAX));
    let shares = [2, 3, 7, 256, 300, 4096].map(|share| PAGE_BYTES / share);
    for bytes in shares.into_iter().chain([100, 1000, 17_000, 65_537]) {
        let (entry, mut room, mut items) = (entry(bytes), Room::default(), Vec::new());
        while room.takes(&entry) {
            items.push(entry.clone());
        }
        assert!(
            items.len() * bytes > PAGE_BYTES / 10 * 4,
            "{bytes}: nearly empty"
        );
        let whole = page(items, Some(last), u64::MAX).encoded_len();
        assert!(whole <= PAGE_BYTES, "entries of {bytes}: {whole}");
    }
}

#[test]
fn an_empty_page_takes_any_entry() {
    let (large, mut room) = (entry(PAGE_BYTES + 1000), Room::default());
    assert!(room.takes(&large));
    assert!(!room.takes(&entry(100)));
}
