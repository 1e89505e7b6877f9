use std::collections::HashSet;

use super::lines::{self, LineError};
use super::{DataType, Scope, registry};

#[test]
fn every_line_is_an_element() {
    let iana = lines::parse(lines::IANA, lines::iana);
    let enterprise = lines::parse(lines::ENTERPRISE, lines::enterprise);
    let wrong: Vec<_> = iana.chain(enterprise).filter_map(Result::err).collect();
    assert_eq!(wrong, []);
}

#[test]
fn a_damaged_line_says_what_is_wrong_with_it() {
    let wrong = |line| lines::enterprise(line).unwrap_err().to_string();
    assert_eq!(wrong("9,1,name,unsigned8"), "4 fields instead of 5");
    assert_eq!(wrong("9,1,name,unsigned8,a,b"), "6 fields instead of 5");
    assert_eq!(wrong("nine,1,name,unsigned8,"), "nine is no number: invalid digit found in string");
    assert!(matches!(
        lines::enterprise("9,65536,name,unsigned8,"),
        Err(LineError::Number("65536", _))
    ));
    assert_eq!(wrong("9,1,name,unsigned9,"), "unsigned9 is not a data type");
    assert_eq!(wrong("9,1,,unsigned8,"), "the name is empty");
}

#[test]
fn a_number_is_given_once_and_fits_its_protocol() {
    let mut seen = HashSet::new();
    for element in registry().iter() {
        assert!(seen.insert((element.scope, element.id)), "{} twice", element.number());
        let is_ipfix = element.scope != Scope::NetflowV9;
        assert!(!is_ipfix || element.id < 0x8000, "{} does not fit", element.number());
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        assert!(element.name.chars().all(is_word), "{} is no name", element.name);
    }
}

#[test]
fn an_element_of_netflow_v9_does_not_hide_one_of_iana() {
    let only_v9 = registry().iter().filter(|element| element.scope == Scope::NetflowV9);
    for element in only_v9 {
        assert_eq!(registry().find_netflow_v9(element.id), Some(element));
    }
}

#[test]
fn names_of_iana_are_unique() {
    let mut seen = HashSet::new();
    for element in registry().iter().filter(|element| element.scope == Scope::IANA) {
        assert!(seen.insert(element.name.to_ascii_lowercase()), "{} twice", element.name);
    }
}

#[test]
fn elements_are_found_by_number() {
    let name = |enterprise, id| registry().find(enterprise, id).map(|element| &*element.name);
    assert_eq!(name(0, 1), Some("octetDeltaCount"));
    assert_eq!(name(0, 65), None);
    assert_eq!(name(35_632, 118), Some("L7_PROTO"));
    assert_eq!(name(6876, 893), Some("tunnelSourceIPv4Address"));
    assert_eq!(name(4_294_967_290, 1), None);
    let name = |id| registry().find_netflow_v9(id).map(|element| &*element.name);
    assert_eq!(name(1), Some("octetDeltaCount"));
    assert_eq!(name(33_002), Some("NF_F_FW_EXT_EVENT"));
}

#[test]
fn elements_are_found_by_name_in_any_case_and_those_of_iana_first() {
    let numbers =
        |name| registry().named(name).map(super::Element::number).collect::<Vec<_>>().join(" ");
    assert_eq!(numbers("OCTETDELTACOUNT"), "1");
    assert_eq!(numbers("flowDirection"), "61 6876/954");
    assert_eq!(numbers("octetDeltaCoun"), "");
}

/// RFC 5103 section 6.1.
#[test]
fn reverse_elements_follow_from_those_of_iana() {
    let reverse = |id| registry().find(29_305, id);
    let octets = reverse(1).unwrap();
    assert_eq!((&*octets.name, octets.unit), ("reverseOctetDeltaCount", "octets"));
    assert_eq!(octets.data_type, DataType::Unsigned64);
    assert_eq!(reverse(236).unwrap().name, "reverseVRFname");
    let of_no_direction = [40, 42, 130, 145, 148, 149, 163, 168, 173, 210, 217, 239];
    assert_eq!(of_no_direction.map(reverse), [None; 12]);
}

#[test]
fn yaf_marks_the_reverse_direction_with_a_bit() {
    let name = |id| registry().find(6871, id).map(|element| &*element.name);
    assert_eq!(name(14), Some("initialTCPFlags"));
    assert_eq!(name(14 | 0x4000), Some("reverseInitialTCPFlags"));
    assert_eq!(name(21), Some("reverseFlowDeltaMilliseconds"));
    assert_eq!(name(21 | 0x4000), None);
    assert_eq!(name(100 | 0x4000), None);
}

#[test]
fn ntop_shifts_its_ids_in_netflow_v9() {
    let shifted = registry().find_netflow_v9(57_590).unwrap();
    assert_eq!((shifted.number(), &*shifted.name), ("v9/57590".to_owned(), "L7_PROTO"));
}

/// libfds and the collectors on it turn NetFlow v9 into IPFIX and keep what IPFIX cannot number.
#[test]
fn netflow_v9_fields_are_found_where_a_converter_put_them() {
    let name = |enterprise, id| registry().find(enterprise, id).map(|element| &*element.name);
    assert_eq!(name(u32::MAX, 57_652 - 0x8000), Some("HTTP_URL"));
    assert_eq!(name(u32::MAX, 57_659 - 0x8000), Some("HTTP_HOST"));
    assert_eq!(name(u32::MAX - 1, 233), Some("firewallEvent"));
}
