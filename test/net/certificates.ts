/**
 * Keys and certificates FOR TESTS ONLY, valid for a hundred years: worthless anywhere else. Made by
 *   openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out NAME.key
 *   openssl req -x509 -new -key ca.key -days 36500 -subj '/CN=…' -out ca.pem
 *   openssl req -new -key server.key -subj /CN=localhost -out server.csr
 *   openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 36500 -out server.pem -extfile FILE
 * with FILE: subjectAltName=DNS:localhost, extendedKeyUsage=serverAuth,clientAuth.
 */

/** Signed `serverCert`. */
export const authority = `-----BEGIN CERTIFICATE-----
MIIBvDCCAWGgAwIBAgIUXm+kSh1kkMPXPhtlTxLEttxqRrEwCgYIKoZIzj0EAwIw
MjEwMC4GA1UEAwwnUGxheWhlYWQgdGVzdCBhdXRob3JpdHksIGZvciB0ZXN0cyBv
bmx5MCAXDTI2MTEzMDEzNDQyOVoYDzIxMjYxMTA2MTM0NDI5WjAyMTAwLgYDVQQD
DCdQbGF5aGVhZCB0ZXN0IGF1dGhvcml0eSwgZm9yIHRlc3RzIG9ubHkwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARNa/64X2laEuliiSnWHFYmTKjobF+PV+n0Hcof
C6/yBOYfxac1GK5LQpy75StgPOU8TMJjBS1EvGajgBjVK4cfo1MwUTAdBgNVHQ4E
FgQUJK2if2yj/7wUXiEtp1vdkgSFQ0EwHwYDVR0jBBgwFoAUJK2if2yj/7wUXiEt
p1vdkgSFQ0EwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAhvE5
JNUq/aYXLTLl8hfKgRbY3ir7ScKUNf454NzwsScCIQDiwO6tQ4to04VjcmrVDmHw
FnXHkRK7zkq6KXZ4Bm/e4w==
-----END CERTIFICATE-----
`

/** Signed nothing. */
export const otherAuthority = `-----BEGIN CERTIFICATE-----
MIIBuDCCAV+gAwIBAgIUN6TpL6hgWX4MDM1IeWR6hrPZoC4wCgYIKoZIzj0EAwIw
MTEvMC0GA1UEAwwmQW5vdGhlciB0ZXN0IGF1dGhvcml0eSwgZm9yIHRlc3RzIG9u
bHkwIBcNMjYxMTMwMTM0NDI5WhgPMjEyNjExMDYxMzQ0MjlaMDExLzAtBgNVBAMM
JkFub3RoZXIgdGVzdCBhdXRob3JpdHksIGZvciB0ZXN0cyBvbmx5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE6AutHflkZcDkAU9tikVbHrYY2VVeQan+JSEy7vVJ
VAX8Gf/NguDrQU/9VG1jCWyjJ7X3uMpw0CC3NaTpmFDJk6NTMFEwHQYDVR0OBBYE
FDlyNvvMQDUQ1+WzIiTqNcTlKOqqMB8GA1UdIwQYMBaAFDlyNvvMQDUQ1+WzIiTq
NcTlKOqqMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgRml4Y6LH
4IS0oxtPWoNMuwmaDBVf2vZRShyJIgM7Y2QCIHR6w2DpcCXXXY5d3sWGy9WhA2Nn
5wfB1a5JW/ebRFO4
-----END CERTIFICATE-----
`

/** For localhost, as a server and as a client. */
export const serverCert = `-----BEGIN CERTIFICATE-----
MIIBwTCCAWegAwIBAgIUNsxSguUsQlGAY+vNsUXOoWFdr5UwCgYIKoZIzj0EAwIw
MjEwMC4GA1UEAwwnUGxheWhlYWQgdGVzdCBhdXRob3JpdHksIGZvciB0ZXN0cyBv
bmx5MCAXDTI2MTEzMDEzNDQyOVoYDzIxMjYxMTA2MTM0NDI5WjAUMRIwEAYDVQQD
DAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASyFcyZxdNcGvzj
mAdG0kJF/9Y6XeyJZKXcR6wzRySPA2WVw2x4NdCqbKFvaIO8wh6si+l2zNXR8Ft4
9zIOjb0lo3cwdTAUBgNVHREEDTALgglsb2NhbGhvc3QwHQYDVR0lBBYwFAYIKwYB
BQUHAwEGCCsGAQUFBwMCMB0GA1UdDgQWBBSWX/N3thhRYotMJrkqZ2jfDbvsRTAf
BgNVHSMEGDAWgBQkraJ/bKP/vBReIS2nW92SBIVDQTAKBggqhkjOPQQDAgNIADBF
AiEA0c/735kDIqedmX8h5iJ3thbX/op718xk5noGIvBqt9kCIDw2DhAWAvTwQ7gu
4b2hisp5/MbOHAjev24IMVe6KXo2
-----END CERTIFICATE-----
`

export const serverKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgO4d7/2h6FW7ayFhQ
Fc6m2RN+Jmbegs2g0jpjaSDrwvShRANCAASyFcyZxdNcGvzjmAdG0kJF/9Y6XeyJ
ZKXcR6wzRySPA2WVw2x4NdCqbKFvaIO8wh6si+l2zNXR8Ft49zIOjb0l
-----END PRIVATE KEY-----
`
