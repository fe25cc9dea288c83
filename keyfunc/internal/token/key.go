package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"reflect"

	"github.com/golang-jwt/jwt/v5"
)

// errBadKey is the error of a missing key: nil, empty or zero, as returned by the lookup of an
// unknown key ID in a map. Clients choose the key ID, so a missing key is no fault of the
// application. The other errors of checkKey wrap errBadKey and are faults of the application.
var (
	errBadKey      = &Error{reason: "unusable verification key"}
	errShortSecret = badKey("HMAC secret shorter than its hash (HS256 needs 32 bytes, HS384 48, HS512 64)")
	errPublicKey   = badKey("public key as HMAC secret")
	errBadPoint    = badKey("ECDSA key without a point on its curve")
)

func badKey(reason string) *Error {
	return &Error{reason: errBadKey.reason + ": " + reason, cause: errBadKey}
}

// checkKey returns nil if a token of method m may be verified with key. It rejects keys with which
// any client can sign, and keys with which the crypto packages panic. Package jwt rejects keys of a
// wrong type, and invalid RSA and Ed25519 keys.
func checkKey(m jwt.SigningMethod, key any) *Error {
	switch k := key.(type) {
	case nil:
		return errBadKey
	case []byte:
		hmac, ok := m.(*jwt.SigningMethodHMAC)
		switch {
		case len(k) == 0:
			return errBadKey
		case isPublicKey(k):
			return errPublicKey
		case ok && len(k) < hmac.Hash.Size(): // RFC 7518 section 3.2
			return errShortSecret
		}
	case *ecdsa.PublicKey:
		switch {
		case k == nil || k.Curve == nil:
			return errBadKey
		case !isOnCurve(k):
			return errBadPoint
		}
	}
	if v := reflect.ValueOf(key); v.Kind() == reflect.Pointer && v.IsNil() {
		return errBadKey
	}
	return nil
}

// isPublicKey recognises the encodings of public keys: PEM, OpenSSH, JSON Web Keys (RFC 7517), and
// DER, also in base64. A public key must not be used as a secret (RFC 8725 section 2.1).
func isPublicKey(b []byte) bool {
	text := bytes.TrimSpace(b)
	for _, prefix := range []string{"ssh-rsa ", "ssh-ed25519 ", "ecdsa-sha2-"} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return true
		}
	}
	if bytes.Contains(text, []byte("-----BEGIN ")) || bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"kty"`)) {
		return true
	}
	const sequence = 0x30 // the first byte of DER; its base64 starts with M
	if bytes.HasPrefix(text, []byte("M")) {
		if der, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
			b = der
		}
	}
	if len(b) == 0 || b[0] != sequence {
		return false
	}
	_, pkix := x509.ParsePKIXPublicKey(b)
	_, pkcs1 := x509.ParsePKCS1PublicKey(b)
	_, certificate := x509.ParseCertificate(b)
	return pkix == nil || pkcs1 == nil || certificate == nil
}

// isOnCurve reports whether k has a point that crypto/ecdsa can verify with. It returns false if
// package elliptic panics, because k has no coordinates or its curve no parameters.
func isOnCurve(k *ecdsa.PublicKey) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	//lint:ignore SA1019 PublicKey.Bytes knows no curves of other packages, such as that of ES256K.
	return k.IsOnCurve(k.X, k.Y)
}
