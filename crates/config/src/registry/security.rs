//! Settings of authentication and TLS.

use super::effect::{
    Effect, KERBEROS, KEY_SCHEME, MD5, SCHEMES, TLS_PROVIDER, UNKNOWN_PROVIDER, ValueSet,
};
use super::key::ValueKind::{Class, Flag, Int, List, Path, Secret, Text};
use super::key::{Key, OutOfRange};
use super::keys;

const NO_KINIT: &str = "this server does not renew tickets with kinit";

// Java classes of the authentication providers, one per scheme.
pub(crate) const SASL_CLASS: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
pub(crate) const DIGEST_CLASS: &str =
    "org.apache.zookeeper.server.auth.DigestAuthenticationProvider";
pub(crate) const IP_CLASS: &str = "org.apache.zookeeper.server.auth.IPAuthenticationProvider";
pub(crate) const ENSEMBLE_CLASS: &str =
    "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
pub(crate) const X509_CLASS: &str = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
pub(crate) const KEY_CLASS: &str = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider";

const PROVIDERS: &[Effect] = &[
    Effect::Refused(ValueSet::OneOf(&[KEY_CLASS]), &KEY_SCHEME),
    Effect::Refused(
        ValueSet::OtherThan(&[
            DIGEST_CLASS,
            IP_CLASS,
            X509_CLASS,
            ENSEMBLE_CLASS,
            SASL_CLASS,
        ]),
        &UNKNOWN_PROVIDER,
    ),
];

keys! {
    AUTH_PROVIDER = Key::prefixed("authProvider.*", Class, "Authentication provider, given as the name of a Java class. The text after `authProvider.` is a label.").partly(PROVIDERS);
    SUPER_DIGEST = Key::prefixed("DigestAuthenticationProvider.superDigest", Secret, "Superuser of the scheme `digest`: `super:`, followed by the digest of `super:PASSWORD`.");
    DIGEST_AUTH_ENABLED = Key::prefixed("DigestAuthenticationProvider.enabled", Flag, "Whether the scheme `digest` is available.").default("true").should();
    DIGEST_ALG = Key::prefixed("DigestAuthenticationProvider.digestAlg", Text, "Hash function of the ids of the scheme `digest`. Use the same function on all members.").default("SHA1").strict().should().partly(&[Effect::Refused(ValueSet::OneOf(&["MD5"]), &MD5)]);
    X509_SUPER_USER = Key::prefixed("X509AuthenticationProvider.superUser", Text, "Subject of the superuser's client certificate, in the form of RFC 2253.").should();
    SUPER_USER = Key::prefixed("superUser", Text, "SASL name of the superuser.");
    SUPER_USER_MORE = Key::prefixed("superUser.*", Text, "Further SASL names with the superuser's rights.");
    LET_ANY_SASL_USER_DO_X = Key::prefixed("letAnySaslUserDoX", Text, "Id that stands for every SASL user in an ACL.").should();
    ALLOW_SASL_FAILED_CLIENTS = Key::prefixed("allowSaslFailedClients", Flag, "Whether a connection continues after a failed SASL login.").default("false").should();
    SESSION_REQUIRE_SASL = Key::prefixed("sessionRequireClientSASLAuth", Flag, "Whether clients must authenticate with SASL.").default("false");
    ENFORCE_AUTH_ENABLED = Key::prefixed("enforce.auth.enabled", Flag, "Whether clients must authenticate with one of `enforce.auth.schemes`.").default("false");
    ENFORCE_AUTH_SCHEMES = Key::prefixed("enforce.auth.schemes", List, "Schemes that satisfy `enforce.auth.enabled`.").partly(&[Effect::Refused(ValueSet::ListsOtherThan(&["digest", "ip", "x509", "sasl"]), &SCHEMES)]).only_with("enforce.auth.enabled", ValueSet::True);
    AUTH_FAILURES_MAX = Key::prefixed("auth.maxFailuresPerMinute", Int, "Maximum number of failed logins of one address per minute. Above the limit, connections of the address are refused until the minute is over; 0 disables the limit.").default("0").unit("failures").at_least(0, OutOfRange::Default);
    ENSEMBLE_AUTH_NAME = Key::prefixed("ensembleAuthName", List, "Names of this ensemble for the scheme `ensemble`.").should();
    USE_X_FORWARDED_FOR = Key::prefixed("IPAuthenticationProvider.usexforwardedfor", Flag, "Whether the first address in the header `X-Forwarded-For` counts as the client's address of an admin request.").default("false").should();
    SASL_SERVER_CONFIG = Key::prefixed("sasl.serverconfig", Text, "Section of the JAAS file for connections from clients.").default("Server");
    JAAS_FILE = Key::property("java.security.auth.login.config", Path, "The JAAS file with the users and passwords of SASL.");
    SASL_SUPER_PASSWORD = Key::prefixed("SASLAuthenticationProvider.superPassword", Secret, "Password of the SASL user `super`.").should();
    KERBEROS_REMOVE_HOST = Key::prefixed("kerberos.removeHostFromPrincipal", Flag, "Whether the host is removed from Kerberos names.").default("false").should().partly(&[Effect::Refused(ValueSet::True, &KERBEROS)]);
    KERBEROS_REMOVE_REALM = Key::prefixed("kerberos.removeRealmFromPrincipal", Flag, "Whether the realm is removed from Kerberos names.").default("false").should().partly(&[Effect::Refused(ValueSet::True, &KERBEROS)]);
    KERBEROS_CANONICALIZE = Key::prefixed("kerberos.canonicalizeHostNames", Flag, "Whether hosts of members are replaced by their canonical names.").default("false").should().partly(&[Effect::Refused(ValueSet::True, &KERBEROS)]);
    AUTH_TO_LOCAL = Key::prefixed("security.auth_to_local", Text, "Rules that turn Kerberos names into user names.").default("DEFAULT").should().partly(&[Effect::Refused(ValueSet::OtherThan(&["DEFAULT"]), &KERBEROS)]);
    REQUIRE_KERBEROS_CONFIG = Key::prefixed("requireKerberosConfig", Text, "Whether Java refuses to start without krb5.conf.").internal("the Kerberos library reports missing settings");
    KRB5_CONF = Key::property("java.security.krb5.conf", Path, "File that the Kerberos library reads instead of the system's krb5.conf.").should();
    KERBEROS_RELOGIN = Key::prefixed("kerberos.minReLoginTimeMs", Text, "Java's pause between two Kerberos logins.").default("60000").unit("ms").internal(NO_KINIT);
    KINIT = Key::prefixed("kinit", Text, "Java's command to renew tickets.").default("/usr/bin/kinit").internal(NO_KINIT);
    SERVER_PRINCIPAL = Key::property("zookeeper.server.principal", Text, "Kerberos name that Java's own clients expect of a server.").internal("only SASL clients use this setting");
    SERVER_REALM = Key::property("zookeeper.server.realm", Text, "Kerberos realm that Java's own clients expect of a server.").internal("only SASL clients use this setting");
    REQUIRE_CLIENT_AUTH_SCHEME = Key::prefixed("requireClientAuthScheme", Text, "A setting from old guides.").internal("no release of ZooKeeper reads this setting; use sessionRequireClientSASLAuth instead. With the value `sasl`, Zoarium refuses every session if the SASL provider is configured but no user can log in");
    JAAS_LOGIN_RENEW = Key::prefixed("jaasLoginRenew", Text, "A setting from old guides.").internal("no release of ZooKeeper reads this setting");

    SSL_AUTH_PROVIDER = Key::prefixed("ssl.authProvider", Text, "Scheme whose provider authenticates the clients of `secureClientPort`.").default("x509").should().partly(&[Effect::Refused(ValueSet::OtherThan(&["x509"]), &TLS_PROVIDER)]);
    SSL_X509 = Key::prefixed("ssl.x509.*", Text, "Settings, such as `ssl.x509.clientCertIdType`, that take ids of the scheme `x509` from alternative names of certificates.").no_effect(ValueSet::Any, "only releases of ZooKeeper after 3.9 read this setting; the id is always the subject of the certificate");
    SSL_PROVIDER = Key::prefixed("ssl.sslProvider", Text, "Java's choice between its own TLS and OpenSSL.").default("JDK").internal("this server has only one TLS library");
    CLIENT_PORT_UNIFICATION = Key::prefixed("client.portUnification", Flag, "Whether `clientPort` also accepts TLS.").default("false");
    CLIENT_CERT_RELOAD = Key::prefixed("client.certReload", Flag, "Whether changed key and trust stores are loaded while the server runs.").default("false").should();
    CLIENT_SECURE = Key::prefixed("client.secure", Flag, "A setting of clients that is often found in a server's file.").no_effect(ValueSet::Any, "only clients read this setting");
    FIPS_MODE = Key::prefixed("fips-mode", Flag, "Whether the check of hosts in certificates of members is skipped, and DIGEST-MD5 between members is disabled. The cryptography is not FIPS-validated with either value.").default("true");
    SSL_VERSION1 = Key::file_or_property("zoarium.ssl.version1", "zoarium.ssl.version1", Flag, "Whether certificates of X.509 version 1 are accepted, both this server's own certificate and certificates of TLS peers. Older versions of `openssl x509 -req` create such certificates. Zoarium only.").default("true").strict().should();
    REJECT_RENEGOTIATION = Key::property("jdk.tls.rejectClientInitiatedRenegotiation", Flag, "Whether Java refuses TLS renegotiation by clients.").default("true").internal("this server never renegotiates TLS connections");
}

/// Settings of a TLS endpoint. Client ports and quorum ports have the same settings.
#[derive(Debug)]
pub(crate) struct TlsKeys {
    pub(crate) key_store_location: &'static Key,
    pub(crate) key_store_password: &'static Key,
    pub(crate) key_store_password_path: &'static Key,
    pub(crate) key_store_type: &'static Key,
    pub(crate) trust_store_location: &'static Key,
    pub(crate) trust_store_password: &'static Key,
    pub(crate) trust_store_password_path: &'static Key,
    pub(crate) trust_store_type: &'static Key,
    pub(crate) protocol: &'static Key,
    pub(crate) enabled_protocols: &'static Key,
    pub(crate) cipher_suites: &'static Key,
    pub(crate) client_auth: &'static Key,
    pub(crate) hostname_verification: &'static Key,
    pub(crate) client_hostname_verification: &'static Key,
    pub(crate) allow_reverse_dns_lookup: &'static Key,
    pub(crate) crl: &'static Key,
    pub(crate) crl_location: &'static Key,
    pub(crate) ocsp: &'static Key,
    pub(crate) handshake_detection_timeout: &'static Key,
}

const STORE_TYPES: &[&str] = &["JKS", "PEM", "PKCS12", "BCFKS"];

macro_rules! tls_keys {
    ($module:ident, $prefix:literal, hosts: $hosts:literal, protocol: $protocol:literal,
     protocols: $protocols:literal) => {
        pub(crate) mod $module {
            use super::super::key::ValueKind::{Choice, Flag, Int, List, Path, Secret, Text};
            use super::super::effect::{ValueSet, BCFKS, CONTEXT_SUPPLIER as NO_SUPPLIER, Effect, REVOCATION};
            use super::super::{key::{Key, OutOfRange}, keys};
            use super::{STORE_TYPES, TlsKeys};

            keys! {
                KEY_STORE_LOCATION = Key::prefixed(concat!($prefix, "keyStore.location"), Path, "File with the server's key and certificates.");
                KEY_STORE_PASSWORD = Key::prefixed(concat!($prefix, "keyStore.password"), Secret, "Password of the key store.");
                KEY_STORE_PASSWORD_PATH = Key::prefixed(concat!($prefix, "keyStore.passwordPath"), Path, concat!("File with the password of the key store; the file overrides `", $prefix, "keyStore.password`."));
                KEY_STORE_TYPE = Key::prefixed(concat!($prefix, "keyStore.type"), Choice(STORE_TYPES), "Format of the key store.").derived("by extension: .jks .pem .p12 .bcfks").strict().partly(&[Effect::Refused(ValueSet::OneOf(&["BCFKS"]), &BCFKS)]);
                TRUST_STORE_LOCATION = Key::prefixed(concat!($prefix, "trustStore.location"), Path, "File with the certificates that are trusted.").derived("the system's root certificates");
                TRUST_STORE_PASSWORD = Key::prefixed(concat!($prefix, "trustStore.password"), Secret, "Password of the trust store.");
                TRUST_STORE_PASSWORD_PATH = Key::prefixed(concat!($prefix, "trustStore.passwordPath"), Path, concat!("File with the password of the trust store; the file overrides `", $prefix, "trustStore.password`."));
                TRUST_STORE_TYPE = Key::prefixed(concat!($prefix, "trustStore.type"), Choice(STORE_TYPES), "Format of the trust store.").derived("by extension: .jks .pem .p12 .bcfks").strict().partly(&[Effect::Refused(ValueSet::OneOf(&["BCFKS"]), &BCFKS)]);
                PROTOCOL = Key::prefixed(concat!($prefix, "protocol"), Text, $protocol).default("TLSv1.3").should();
                ENABLED_PROTOCOLS = Key::prefixed(concat!($prefix, "enabledProtocols"), List, "TLS versions that are accepted.").derived($protocols);
                CIPHER_SUITES = Key::prefixed(concat!($prefix, "ciphersuites"), List, "TLS cipher suites that are accepted.").derived("the secure suites");
                CLIENT_AUTH = Key::prefixed(concat!($prefix, "clientAuth"), Choice(&["none", "want", "need"]), "Whether the connecting side must send a certificate; `want` only requests a certificate.").default("need").strict();
                HOSTNAME_VERIFICATION = Key::prefixed(concat!($prefix, "hostnameVerification"), Flag, "Whether a server's host must be in its certificate.").default("true");
                CLIENT_HOSTNAME_VERIFICATION = Key::prefixed(concat!($prefix, "clientHostnameVerification"), Flag, "Whether a client's host must be in its certificate.").default($hosts).should();
                ALLOW_REVERSE_DNS_LOOKUP = Key::prefixed(concat!($prefix, "allowReverseDnsLookup"), Flag, concat!("Whether `", $prefix, "clientHostnameVerification` looks up the host name from the client's address.")).default($hosts).should();
                CRL_LOCATION = Key::prefixed(concat!($prefix, "crl.location"), Path, "File with lists of revoked certificates, PEM or DER. Certificates on a list, and certificates whose issuer has no current list, are refused.");
                CRL = Key::prefixed(concat!($prefix, "crl"), Flag, "Whether revocation lists are fetched from the addresses in certificates.").default("false").should().refused(ValueSet::True, &REVOCATION);
                OCSP = Key::prefixed(concat!($prefix, "ocsp"), Flag, "Whether the status of certificates is queried with OCSP.").default("false").should().refused(ValueSet::True, &REVOCATION);
                CONTEXT_SUPPLIER = Key::prefixed(concat!($prefix, "context.supplier.class"), Text, "Java class that creates the TLS context.").refused(ValueSet::Any, &NO_SUPPLIER);
                HANDSHAKE_DETECTION_TIMEOUT = Key::prefixed(concat!($prefix, "handshakeDetectionTimeoutMillis"), Int, "Time limit for the first bytes of a connection, which distinguish TLS from plain connections.").default("5000").unit("ms").at_least(1, OutOfRange::Default).should();
            }

            pub(crate) static KEYS: TlsKeys = TlsKeys {
                key_store_location: &KEY_STORE_LOCATION,
                key_store_password: &KEY_STORE_PASSWORD,
                key_store_password_path: &KEY_STORE_PASSWORD_PATH,
                key_store_type: &KEY_STORE_TYPE,
                trust_store_location: &TRUST_STORE_LOCATION,
                trust_store_password: &TRUST_STORE_PASSWORD,
                trust_store_password_path: &TRUST_STORE_PASSWORD_PATH,
                trust_store_type: &TRUST_STORE_TYPE,
                protocol: &PROTOCOL,
                enabled_protocols: &ENABLED_PROTOCOLS,
                cipher_suites: &CIPHER_SUITES,
                client_auth: &CLIENT_AUTH,
                hostname_verification: &HOSTNAME_VERIFICATION,
                client_hostname_verification: &CLIENT_HOSTNAME_VERIFICATION,
                allow_reverse_dns_lookup: &ALLOW_REVERSE_DNS_LOOKUP,
                crl: &CRL,
                crl_location: &CRL_LOCATION,
                ocsp: &OCSP,
                handshake_detection_timeout: &HANDSHAKE_DETECTION_TIMEOUT,
            };
        }
    };
}

tls_keys!(
    client_tls, "ssl.", hosts: "false",
    protocol: "TLS version that is accepted if `ssl.enabledProtocols` is not set.",
    protocols: "`ssl.protocol`"
);
tls_keys!(
    quorum_tls, "ssl.quorum.", hosts: "true",
    protocol: "TLS version of Java's members. Zoarium reads only `ssl.quorum.enabledProtocols`.",
    protocols: "TLSv1.3, TLSv1.2"
);
