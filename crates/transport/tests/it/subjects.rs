//! Tests of certificate names against the Java of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString, UniversalString};
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
use zoarium_transport::tls::certificate;

/// Prints the subject of each certificate, in hexadecimal.
const PROGRAM: &str = r#"
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

public class Subject {
    public static void main(String[] files) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String file : files) {
            try (FileInputStream in = new FileInputStream(file)) {
                X509Certificate read = (X509Certificate) factory.generateCertificate(in);
                String name = read.getSubjectX500Principal().getName();
                StringBuilder hex = new StringBuilder();
                for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
                    hex.append(String.format("%02x", b));
                }
                System.out.println(hex);
            }
        }
    }
}
"#;

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "plain",
        "a,b",
        "a+b",
        "a\"b",
        "a\\b",
        "a<b>c",
        "a;b",
        "a=b",
        "#a",
        "a#b",
        " a",
        "  a",
        "a ",
        "a  ",
        " ",
        "  ",
        "a b",
        "\ra\r",
        "\ta\n",
        "a/b",
        "Zoë",
        "名前",
        "a\u{1F600}b",
        "nul\0inside",
        "O'Brien",
        "a:b",
        "a*b",
        "a@b",
        "\u{7f}",
        "",
    ]
    .map(str::to_owned)
    .into();
    texts.push("x".repeat(200));
    texts
}

fn values(text: &str) -> Vec<DnValue> {
    let mut values = vec![DnValue::Utf8String(text.to_owned())];
    values.extend(
        PrintableString::try_from(text)
            .ok()
            .map(DnValue::PrintableString),
    );
    values.extend(Ia5String::try_from(text).ok().map(DnValue::Ia5String));
    values.extend(
        TeletexString::try_from(text)
            .ok()
            .map(DnValue::TeletexString),
    );
    values.extend(BmpString::try_from(text).ok().map(DnValue::BmpString));
    values.extend(
        UniversalString::try_from(text)
            .ok()
            .map(DnValue::UniversalString),
    );
    values
}

fn attributes() -> Vec<DnType> {
    let custom = |numbers: &[u64]| DnType::CustomDnType(numbers.to_vec());
    vec![
        DnType::CommonName,
        DnType::CountryName,
        DnType::LocalityName,
        DnType::StateOrProvinceName,
        DnType::OrganizationName,
        DnType::OrganizationalUnitName,
        custom(&[2, 5, 4, 9]),
        custom(&[0, 9, 2342, 19_200_300, 100, 1, 1]),
        custom(&[0, 9, 2342, 19_200_300, 100, 1, 25]),
        custom(&[2, 5, 4, 5]),
        custom(&[1, 2, 840, 113_549, 1, 9, 1]),
        custom(&[1, 3, 6, 1, 4, 1, 99999, 7]),
    ]
}

fn certificate_of(name: DistinguishedName, key: &KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.self_signed(key).unwrap().der().to_vec()
}

/// Creates certificates with unusual subjects.
fn certificates(dir: &Path) -> Vec<Vec<u8>> {
    let key = KeyPair::generate().unwrap();
    let mut all = Vec::new();
    for text in texts() {
        for value in values(&text) {
            let mut name = DistinguishedName::new();
            name.push(DnType::OrganizationName, "Test");
            name.push(DnType::CommonName, value);
            all.push(certificate_of(name, &key));
        }
    }
    let mut every = DistinguishedName::new();
    for (number, attribute) in attributes().into_iter().enumerate() {
        every.push(attribute, format!("value, {number}"));
    }
    all.push(certificate_of(every, &key));
    // Several attributes in one part of the name.
    for (number, subject) in [
        "/O=Test/CN=a+UID=b",
        "/DC=org/DC=example/OU=x+CN=y+serialNumber=1",
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.join(format!("several{number}.der"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args([
                "-nodes",
                "-keyout",
                "/dev/null",
                "-multivalue-rdn",
                "-outform",
                "DER",
            ])
            .args(["-days", "30", "-subj", subject, "-out"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        all.push(fs::read(path).unwrap());
    }
    all
}

#[test]
fn subjects_are_written_as_java_writes_them() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("Subject.java");
    fs::write(&program, PROGRAM).unwrap();
    if Command::new("java").arg("-version").output().is_err() {
        eprintln!("skipped: java is missing");
        return;
    }
    let certificates = certificates(dir.path());
    let mut java = Command::new("java");
    java.arg(&program);
    for (number, der) in certificates.iter().enumerate() {
        let path = dir.path().join(format!("{number}.crt"));
        fs::write(&path, der).unwrap();
        java.arg(path);
    }
    let ran = java.output().unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let said = String::from_utf8(ran.stdout).unwrap();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), certificates.len());
    let mut faults = Vec::new();
    for (der, expected) in certificates.iter().zip(said) {
        let ours = certificate::subject(&der.as_slice().into()).unwrap();
        let hex: String = ours.bytes().map(|byte| format!("{byte:02x}")).collect();
        if hex != expected {
            faults.push((ours, text_of(expected)));
        }
    }
    assert!(faults.is_empty(), "(ours, Java's): {faults:#?}");
}

fn text_of(hex: &str) -> String {
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16));
    let bytes: Vec<u8> = bytes.map(Result::unwrap).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
