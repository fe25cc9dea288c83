//lint:file-ignore SA1019 Invalid keys can only be made by their coordinates.

package keyfunc_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// longSecret is as long as the output of SHA-512.
var longSecret = []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

// keySet is a jwt.VerificationKeySet of keys.
func keySet(keys ...jwt.VerificationKey) any { return jwt.VerificationKeySet{Keys: keys} }

func TestJWTSubject_Algorithms(t *testing.T) {
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	algorithms := []struct {
		method          jwt.SigningMethod
		private, public any
	}{
		{jwt.SigningMethodHS256, secret, secret},
		{jwt.SigningMethodHS384, longSecret, longSecret},
		{jwt.SigningMethodHS512, longSecret, longSecret},
		{jwt.SigningMethodRS256, rsaKey(), &rsaKey().PublicKey},
		{jwt.SigningMethodPS256, rsaKey(), &rsaKey().PublicKey},
		{jwt.SigningMethodES256, ecKey, &ecKey.PublicKey},
		{jwt.SigningMethodEdDSA, edKey, edKey.Public()},
	}
	for _, signed := range algorithms {
		r := bearer(sign(t, signed.method, signed.private, jwt.MapClaims{"sub": "alice", "exp": inAnHour()}))
		for _, accepted := range algorithms {
			f := keyfunc.JWTSubject(returning(signed.public), []string{accepted.method.Alg()})
			t.Run(signed.method.Alg()+" where only "+accepted.method.Alg()+" is accepted", func(t *testing.T) {
				if signed.method == accepted.method {
					wantKey(t, f, r, "user:alice")
				} else {
					wantError(t, f, r, keyfunc.ErrNoToken)
				}
			})
		}
	}
}

func TestJWTSubject_KeySet(t *testing.T) {
	f := keyfunc.JWTSubject(returning(keySet([]byte("an older secret of thirty-two bytes"), secret)), []string{"HS256"})
	wantKey(t, f, bearer(token(`"sub":"alice"`)), "user:alice")
	wantError(t, f, bearer(hs256([]byte("another"), goodHeader, `{"sub":"alice","exp":4000000000}`)), keyfunc.ErrNoToken)
}

// publicKeys are encodings of public keys, by their names.
func publicKeys() map[string]any {
	public := &rsaKey().PublicKey
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, public, rsaKey()))
	pkcs1, pkix := x509.MarshalPKCS1PublicKey(public), must(x509.MarshalPKIXPublicKey(public))
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	return map[string]any{
		"PEM, PKIX":             text,
		"PEM, PKCS1":            pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
		"PEM, certificate":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"PEM after white space": append([]byte("\n \t"), text...),
		"PEM after attributes":  append([]byte("Bag Attributes\n    friendlyName: web\n"), text...),
		"DER, PKIX":             pkix,
		"DER, PKCS1":            pkcs1,
		"DER, certificate":      certificate,
		"base64":                []byte(base64.StdEncoding.EncodeToString(pkix)),
		"base64, in lines":      text[len("-----BEGIN PUBLIC KEY-----\n") : len(text)-len("-----END PUBLIC KEY-----\n")],
		"ssh RSA":               []byte("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host\n"),
		"ssh Ed25519":           []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKtU user@host\n"),
		"ssh ECDSA":             []byte("\tecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAI user@host"),
		"JWK":                   []byte(` {"e":"AQAB","kty" : "RSA","n":"sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri"}`),
		"JWK Set":               []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`),
	}
}

// offCurve returns a key whose point is not on curve.
func offCurve(curve elliptic.Curve) *ecdsa.PublicKey {
	return &ecdsa.PublicKey{Curve: curve, X: big.NewInt(1), Y: big.NewInt(1)}
}

// unusableKeys returns keys with which the crypto packages would panic, and values that are not
// public keys. Many are the zero values that a map returns for an unknown key ID.
func unusableKeys() map[string]any {
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	p256, x, y := elliptic.P256(), ecKey.X, ecKey.Y
	huge := new(big.Int).Lsh(big.NewInt(1), 4096)
	return map[string]any{
		"nil":                                    nil,
		"pointer, nil":                           (*int)(nil),
		"another type":                           42,
		"none":                                   jwt.UnsafeAllowNoneSignatureType,
		"secret, nil":                            []byte(nil),
		"secret, empty":                          []byte{},
		"secret, text":                           string(secret),
		"secret, pointer, nil":                   (*[]byte)(nil),
		"set, empty":                             keySet(),
		"set, pointer, nil":                      (*jwt.VerificationKeySet)(nil),
		"set in a set":                           keySet(keySet()),
		"ECDSA, nil":                             (*ecdsa.PublicKey)(nil),
		"ECDSA, zero value":                      &ecdsa.PublicKey{},
		"ECDSA, curve only":                      &ecdsa.PublicKey{Curve: p256},
		"ECDSA, no Y":                            &ecdsa.PublicKey{Curve: p256, X: x},
		"ECDSA, no X":                            &ecdsa.PublicKey{Curve: p256, Y: y},
		"ECDSA, no curve":                        &ecdsa.PublicKey{X: x, Y: y},
		"ECDSA, nil curve parameters":            &ecdsa.PublicKey{Curve: (*elliptic.CurveParams)(nil), X: x, Y: y},
		"ECDSA, empty curve parameters":          &ecdsa.PublicKey{Curve: new(elliptic.CurveParams), X: x, Y: y},
		"ECDSA, infinity":                        &ecdsa.PublicKey{Curve: p256, X: new(big.Int), Y: new(big.Int)},
		"ECDSA, negative":                        &ecdsa.PublicKey{Curve: p256, X: new(big.Int).Neg(x), Y: y},
		"ECDSA, overflowing":                     &ecdsa.PublicKey{Curve: p256, X: huge, Y: y},
		"ECDSA, off the curve":                   offCurve(p256),
		"ECDSA, off the curve of ES384":          offCurve(elliptic.P384()),
		"ECDSA, off the curve of ES512":          offCurve(elliptic.P521()),
		"ECDSA, off a generic curve":             offCurve(p256.Params()),
		"ECDSA, off a curve of other parameters": offCurve(&elliptic.CurveParams{P: big.NewInt(23), N: big.NewInt(29), B: big.NewInt(4), Gx: big.NewInt(0), Gy: big.NewInt(2), BitSize: 256}),
		"ECDSA, private key":                     ecKey,
		"ECDSA, private key, nil":                (*ecdsa.PrivateKey)(nil),
		"ECDSA, value":                           ecKey.PublicKey,
		"RSA, nil":                               (*rsa.PublicKey)(nil),
		"RSA, zero value":                        &rsa.PublicKey{},
		"RSA, no modulus":                        &rsa.PublicKey{E: 65537},
		"RSA, modulus 0":                         &rsa.PublicKey{N: new(big.Int), E: 65537},
		"RSA, negative modulus":                  &rsa.PublicKey{N: big.NewInt(-35), E: 65537},
		"RSA, short modulus":                     &rsa.PublicKey{N: big.NewInt(35), E: 65537},
		"RSA, even modulus":                      &rsa.PublicKey{N: huge, E: 65537},
		"RSA, exponent 0":                        &rsa.PublicKey{N: rsaKey().N},
		"RSA, exponent 1":                        &rsa.PublicKey{N: rsaKey().N, E: 1},
		"RSA, negative exponent":                 &rsa.PublicKey{N: rsaKey().N, E: -65537},
		"RSA, even exponent":                     &rsa.PublicKey{N: rsaKey().N, E: 65536},
		"RSA, private key":                       rsaKey(),
		"RSA, private key, nil":                  (*rsa.PrivateKey)(nil),
		"RSA, value":                             rsaKey().PublicKey,
		"Ed25519, nil":                           ed25519.PublicKey(nil),
		"Ed25519, empty":                         ed25519.PublicKey{},
		"Ed25519, short":                         make(ed25519.PublicKey, 31),
		"Ed25519, long":                          make(ed25519.PublicKey, 33),
		"Ed25519, private key":                   edKey,
		"Ed25519, private key, nil":              ed25519.PrivateKey(nil),
		"Ed25519, pointer, nil":                  (*ed25519.PublicKey)(nil),
	}
}

// Any client can sign with a public key or an empty secret. JWTSubject rejects such tokens, even if
// the application accepts every algorithm and returns every key that it has.
func TestJWTSubject_UnusableKey(t *testing.T) {
	signatures := map[string]int{"HS256": 32, "RS256": 256, "PS256": 256, "ES256": 64, "ES384": 96, "ES512": 132, "EdDSA": 64} // sizes
	algorithms := []string{"HS256", "RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"}
	for _, keys := range []map[string]any{unusableKeys(), publicKeys()} {
		for name, key := range keys {
			t.Run(name, func(t *testing.T) {
				hmacKey, _ := key.([]byte)
				const payload = `{"sub":"victim","exp":4000000000}`
				tokens := []string{hs256(hmacKey, goodHeader, payload), hs256(hmacKey, `{"alg":"none"}`, payload)}
				for alg, size := range signatures {
					text := hs256(secret, `{"alg":"`+alg+`"}`, payload)
					signature := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, size))
					tokens = append(tokens, text[:strings.LastIndexByte(text, '.')+1]+signature)
				}
				for _, returned := range []any{key, keySet(key), keySet(rsaKey().Public(), key), keySet(longSecret, key)} {
					f := keyfunc.JWTSubject(returning(returned), algorithms)
					for _, text := range tokens {
						wantError(t, f, bearer(text), keyfunc.ErrNoToken)
					}
				}
			})
		}
	}
}

// RFC 7518 section 3.2 requires a secret of the size of the hash.
func TestJWTSubject_SecretLength(t *testing.T) {
	const reason = "unusable verification key: HMAC secret shorter than its hash (HS256 needs 32 bytes, HS384 48, HS512 64)"
	for _, c := range []struct {
		method   jwt.SigningMethod
		shortest int
	}{{jwt.SigningMethodHS256, 32}, {jwt.SigningMethodHS384, 48}, {jwt.SigningMethodHS512, 64}} {
		for _, length := range []int{1, 16, c.shortest - 1, c.shortest, c.shortest + 1} {
			t.Run(fmt.Sprintf("%s with %d bytes", c.method.Alg(), length), func(t *testing.T) {
				key := []byte(strings.Repeat("k", length))
				r := bearer(sign(t, c.method, key, jwt.MapClaims{"sub": "alice", "exp": inAnHour()}))
				for _, returned := range []any{key, keySet(longSecret, key)} {
					f := keyfunc.JWTSubject(returning(returned), []string{c.method.Alg()})
					if length >= c.shortest {
						wantKey(t, f, r, "user:alice")
					} else {
						wantNoToken(t, f, r, reason)
					}
				}
			})
		}
	}
}

// A fault of the application is logged, at most once a minute, because clients can cause the error
// as often as they like. An unknown key ID is no fault of the application.
func TestJWTSubject_Log(t *testing.T) {
	for _, c := range []struct {
		name string
		key  any    // or an error
		line string // logged twice in 61 s, if any
	}{
		{"key server down", errors.New("dial id.example.com: refused"), "dial id.example.com: refused"},
		{"key server down, counted", errors.New("refused"), "suppressed=299"},
		{"an error with the token", fmt.Errorf("no key for %s", token(`"sub":"alice"`)), "no key for [token]"},
		{"unknown key ID, as an error of clients", fmt.Errorf("%w: unknown kid", keyfunc.ErrNoToken), ""},
		{"short secret", []byte("kkk"), "HMAC secret shorter"},
		{"public key as secret", []byte("ssh-rsa kkk user@host"), "public key as HMAC secret"},
		{"ECDSA, off the curve", offCurve(elliptic.P256()), "ECDSA key without a point"},
		{"secret of an unknown key ID", []byte(nil), ""},
		{"ECDSA key of an unknown key ID", new(ecdsa.PublicKey), ""},
		{"no key", nil, ""},
		{"good secret", longSecret, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				defer slog.SetDefault(slog.Default())
				slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
				r := bearer(token(`"sub":"alice"`))
				err, _ := c.key.(error)
				user := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return c.key, err }, []string{"HS256", "ES256"})
				for range 61 {
					for range 5 {
						wantKey(t, keyfunc.FirstOf(user, constant("anonymous")), r, "anonymous")
					}
					time.Sleep(time.Second)
				}
				want := 2
				if c.line == "" {
					want = 0
				}
				lines := log.String()
				if strings.Count(lines, "\n") != want || strings.Count(lines, "level=WARN") != want || !strings.Contains(lines, c.line) || strings.Contains(lines, "kkk") || strings.Contains(lines, r.Header.Get("Authorization")[len("Bearer "):]) {
					t.Errorf("logged %q; want %d warnings with %q and without the key", lines, want, c.line)
				}
			})
		})
	}
}
