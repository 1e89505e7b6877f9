//! The tables, without packets.

use super::*;

fn interface(id: u64, domain_id: u32, name: &str, seen_ms: i64) -> Announcement {
    let entry = Entry { name: name.into(), description: Arc::default(), seen_ms };
    Announcement { kind: Kind::Interface, key: (id, domain_id), entry }
}

fn learn(names: &Names, id: u64, domain_id: u32, name: &str, seen_ms: i64) -> bool {
    names.learn(std::iter::once(interface(id, domain_id, name, seen_ms)), seen_ms)
}

fn name(names: &Names, id: u64, domain_id: u32, now_ms: i64) -> Option<String> {
    let lookup = names.lookup(domain_id, now_ms);
    lookup.texts(Kind::Interface, id).map(|[name, _]| name.to_string())
}

#[test]
fn a_name_of_the_own_domain_wins_and_another_domain_helps_out() {
    let names = Names::default();
    assert!(names.lookup(1, 0).tables.is_none(), "nothing to look at");
    learn(&names, 5, 1, "a", 0);
    learn(&names, 5, 2, "b", 0);
    learn(&names, 6, 2, "c", 0);
    assert_eq!(name(&names, 5, 1, 0).unwrap(), "a");
    assert_eq!(name(&names, 5, 2, 0).unwrap(), "b");
    assert_eq!(name(&names, 6, 1, 0).unwrap(), "c");
    assert_eq!(name(&names, 5, 3, 0), None, "the others disagree");
    assert_eq!(name(&names, 7, 1, 0), None);
    assert!(names.lookup(1, 0).texts(Kind::Vrf, 5).is_none(), "another table");
}

#[test]
fn a_name_expires_when_it_is_not_announced_again_and_an_empty_one_takes_it_back() {
    let names = Names::default();
    learn(&names, 5, 1, "a", 0);
    assert_eq!(name(&names, 5, 1, AGE_MAX_MS - 1).unwrap(), "a");
    assert_eq!(name(&names, 5, 1, AGE_MAX_MS), None);
    learn(&names, 5, 1, "a", AGE_MAX_MS);
    assert_eq!(name(&names, 5, 1, AGE_MAX_MS).unwrap(), "a");
    learn(&names, 5, 1, "", AGE_MAX_MS);
    assert_eq!(name(&names, 5, 1, AGE_MAX_MS), None);
    assert!(names.lookup(1, AGE_MAX_MS).tables.is_none());
}

#[test]
fn a_refresh_that_changes_nothing_writes_nothing() {
    let names = Names::default();
    learn(&names, 5, 1, "a", 0);
    let before = names.current();
    learn(&names, 5, 1, "a", REFRESH_MS - 1);
    assert!(Arc::ptr_eq(&before, &names.current()));
    learn(&names, 5, 1, "a", REFRESH_MS);
    assert!(!Arc::ptr_eq(&before, &names.current()), "the reader that looks keeps its own");
}

#[test]
fn names_are_limited_and_old_ones_make_room() {
    let names = Names::default();
    let all = (0..NAMES_PER_TABLE_MAX as u64).map(|id| interface(id, 1, "a", 0));
    assert!(names.learn(all, 0));
    let beyond = NAMES_PER_TABLE_MAX as u64;
    assert!(!learn(&names, beyond, 1, "b", 0), "full");
    assert!(learn(&names, 3, 1, "b", 0), "known");
    assert_eq!(name(&names, 3, 1, 0).unwrap(), "b");
    assert!(learn(&names, beyond, 1, "b", AGE_MAX_MS));
    assert_eq!(names.current()[0].len(), 1);
}

#[test]
fn a_full_table_is_searched_for_old_names_once_a_second() {
    let names = Names::default();
    let all = (0..NAMES_PER_TABLE_MAX as u64).map(|id| interface(id, 1, "a", id as i64));
    names.learn(all, 0);
    assert!(learn(&names, 100_000, 1, "b", AGE_MAX_MS), "the first has made room");
    assert!(!learn(&names, 100_001, 1, "b", AGE_MAX_MS + 999), "nobody has looked again");
    assert!(learn(&names, 100_001, 1, "b", AGE_MAX_MS + 1_000));
}

#[test]
fn only_some_other_domains_are_asked() {
    let names = Names::default();
    let asked = u32::try_from(DOMAINS_ASKED_MAX).unwrap();
    for domain_id in 0..asked {
        learn(&names, 5, domain_id, "a", 0);
    }
    learn(&names, 5, asked, "b", 0);
    assert_eq!(name(&names, 5, 1_000, 0).unwrap(), "a");
    learn(&names, 5, 0, "b", 0);
    assert_eq!(name(&names, 5, 1_000, 0), None);
}

#[test]
fn the_names_of_all_exporters_are_limited_and_end_with_their_exporter() {
    let bytes_in_all = Arc::default();
    let names = Names::new(Arc::clone(&bytes_in_all));
    for text in ["long name", "name"] {
        learn(&names, 5, 1, text, 0);
    }
    assert_eq!(bytes_in_all.load(Ordering::Relaxed), ENTRY_BYTES + 4);
    let other = Names::new(Arc::clone(&bytes_in_all));
    bytes_in_all.fetch_add(BYTES_IN_ALL_MAX - 2 * ENTRY_BYTES - 8, Ordering::Relaxed);
    assert!(!learn(&other, 5, 1, "names", 0), "one byte too many");
    assert!(learn(&other, 5, 1, "name", 0));
    assert_eq!(bytes_in_all.load(Ordering::Relaxed), BYTES_IN_ALL_MAX);
    drop((names, other));
    assert_eq!(bytes_in_all.load(Ordering::Relaxed), BYTES_IN_ALL_MAX - 2 * ENTRY_BYTES - 8);
}
