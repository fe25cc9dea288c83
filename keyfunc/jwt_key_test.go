//lint:file-ignore SA1019 Keys that are wrong are made by their coordinates.

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
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

func TestJWTAlgorithms(t *testing.T) {
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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
		{jwt.SigningMethodEdDSA, edPrivate, edPublic},
	}
	for _, signed := range algorithms {
		r := bearer(sign(t, signed.method, signed.private, jwt.MapClaims{"sub": "alice", "exp": inAnHour()}))
		for _, accepted := range algorithms {
			f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return signed.public, nil }, []string{accepted.method.Alg()})
			t.Run(signed.method.Alg()+" where "+accepted.method.Alg()+" is meant", func(t *testing.T) {
				if signed.method == accepted.method {
					wantKey(t, f, r, "user:alice")
				} else {
					wantError(t, f, r, keyfunc.ErrNoToken)
				}
			})
		}
	}
}

// Everyone has the public key, so nobody may use it as a secret, even where
// the application accepts both kinds of algorithm and returns whatever it has.
func TestPublicKeyIsNoSecret(t *testing.T) {
	public := &rsaKey().PublicKey
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, key := range map[string][]byte{
		"PKIX":              text,
		"PKCS1":             pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(public)}),
		"certificate":       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"after white space": append([]byte("\n \t"), text...),
		"after attributes":  append([]byte("Bag Attributes\n    friendlyName: web\n"), text...),
		"DER, PKIX":         der,
		"DER, PKCS1":        x509.MarshalPKCS1PublicKey(public),
		"DER, certificate":  certificate(t),
		"base64":            []byte(base64.StdEncoding.EncodeToString(der)),
		"base64, in lines":  text[len("-----BEGIN PUBLIC KEY-----\n") : len(text)-len("-----END PUBLIC KEY-----\n")],
		"ssh RSA":           []byte("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host\n"),
		"ssh Ed25519":       []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKtU user@host\n"),
		"ssh ECDSA":         []byte("\tecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAI user@host"),
		"JWK":               []byte(` {"e":"AQAB","kty" : "RSA","n":"sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri"}`),
		"JWK Set":           []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			r := bearer(sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "victim", "exp": inAnHour()}))
			for _, returned := range []any{key, public, *public, string(key), jwt.VerificationKeySet{Keys: []jwt.VerificationKey{key}}, jwt.VerificationKeySet{Keys: []jwt.VerificationKey{secret, key}}} {
				f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return returned, nil }, []string{"RS256", "HS256"})
				wantError(t, f, r, keyfunc.ErrNoToken)
			}
		})
	}
}

// A map returns its zero value for a key ID that it does not have: a secret
// that everyone knows, or a key with which the crypto packages panic.
func TestUnknownKeyIDs(t *testing.T) {
	kid := func(token *jwt.Token) string { return token.Header["kid"].(string) }
	for name, lookup := range map[string]jwt.Keyfunc{
		"secrets":        func(token *jwt.Token) (any, error) { return map[string][]byte{}[kid(token)], nil },
		"empty secret":   func(*jwt.Token) (any, error) { return []byte{}, nil },
		"any":            func(token *jwt.Token) (any, error) { return map[string]any{}[kid(token)], nil },
		"RSA pointers":   func(token *jwt.Token) (any, error) { return map[string]*rsa.PublicKey{}[kid(token)], nil },
		"RSA values":     func(token *jwt.Token) (any, error) { k := map[string]rsa.PublicKey{}[kid(token)]; return &k, nil },
		"ECDSA pointers": func(token *jwt.Token) (any, error) { return map[string]*ecdsa.PublicKey{}[kid(token)], nil },
		"ECDSA values": func(token *jwt.Token) (any, error) {
			k := map[string]ecdsa.PublicKey{}[kid(token)]
			return &k, nil
		},
		"Ed25519":    func(token *jwt.Token) (any, error) { return map[string]ed25519.PublicKey{}[kid(token)], nil },
		"empty set":  func(*jwt.Token) (any, error) { return jwt.VerificationKeySet{}, nil },
		"set of nil": func(*jwt.Token) (any, error) { return jwt.VerificationKeySet{Keys: []jwt.VerificationKey{nil}}, nil },
		"set of empty": func(*jwt.Token) (any, error) {
			return jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte{}}}, nil
		},
		"another type":  func(*jwt.Token) (any, error) { return 42, nil },
		"a nil pointer": func(*jwt.Token) (any, error) { return (*int)(nil), nil },
		"none constant": func(*jwt.Token) (any, error) { return jwt.UnsafeAllowNoneSignatureType, nil },
		"private key":   func(*jwt.Token) (any, error) { return rsaKey(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := keyfunc.JWTSubject(lookup, []string{"HS256", "RS256", "PS256", "ES256", "EdDSA"})
			payload := `{"sub":"victim","exp":4000000000}`
			for _, alg := range []string{"HS256", "RS256", "PS256", "ES256", "EdDSA", "none"} {
				// The signature is the one of an empty secret, 64 bytes where it has to be.
				token := hs256(nil, `{"alg":"`+alg+`","kid":"unknown"}`, payload)
				wantError(t, f, bearer(token), keyfunc.ErrNoToken)
				if alg == "ES256" || alg == "EdDSA" {
					wantError(t, f, bearer(token[:len(token)-43]+sixtyFourBytes), keyfunc.ErrNoToken)
				}
			}
		})
	}
}

// sixtyFourBytes is as long as an ECDSA or Ed25519 signature.
const sixtyFourBytes = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fIA"

func TestVerificationKeySet(t *testing.T) {
	set := jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte("an older secret of thirty-two bytes"), secret}}
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return set, nil }, []string{"HS256"})
	wantKey(t, f, bearer(token(`"sub":"alice"`)), "user:alice")
	wantError(t, f, bearer(hs256([]byte("another"), goodHeader, `{"sub":"alice","exp":4000000000}`)), keyfunc.ErrNoToken)
}

// longSecret is as long as the output of SHA-512.
var longSecret = []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

// certificate is a certificate for the public part of rsaKey, in DER.
func certificate(t *testing.T) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsaKey().PublicKey, rsaKey())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// returning is a Keyfunc with one key.
func returning(key any) jwt.Keyfunc { return func(*jwt.Token) (any, error) { return key, nil } }

// RFC 7518 section 3.2 requires a secret of the size of the hash.
func TestJWTSubject_SecretLength(t *testing.T) {
	const reason = "keyfunc: no key: no valid token: unusable verification key: HMAC secret shorter than its hash (HS256 needs 32 bytes, HS384 48, HS512 64)"
	for _, c := range []struct {
		method   jwt.SigningMethod
		shortest int
	}{{jwt.SigningMethodHS256, 32}, {jwt.SigningMethodHS384, 48}, {jwt.SigningMethodHS512, 64}} {
		for _, length := range []int{1, 16, c.shortest - 1, c.shortest, c.shortest + 1} {
			t.Run(fmt.Sprintf("%s with %d bytes", c.method.Alg(), length), func(t *testing.T) {
				key := []byte(strings.Repeat("k", length))
				r := bearer(sign(t, c.method, key, jwt.MapClaims{"sub": "alice", "exp": inAnHour()}))
				for _, returned := range []any{key, jwt.VerificationKeySet{Keys: []jwt.VerificationKey{longSecret, key}}} {
					lines := logged(t, func() {
						f := keyfunc.JWTSubject(returning(returned), []string{c.method.Alg()})
						if length >= c.shortest {
							wantKey(t, f, r, "user:alice")
							return
						}
						wantError(t, f, r, keyfunc.ErrNoToken)
						if _, err := ask(f, r); err.Error() != reason {
							t.Errorf("error %q, want %q", err, reason)
						}
					})
					if short := strings.Contains(lines, "HMAC secret shorter"); short != (length < c.shortest) || strings.Contains(lines, "kkk") {
						t.Errorf("log %q; want a line about the length: %v, and never the secret", lines, length < c.shortest)
					}
				}
			})
		}
	}
}

// offCurve is a point that is on no curve, with the curve of its algorithm.
func offCurve(curve elliptic.Curve) *ecdsa.PublicKey {
	return &ecdsa.PublicKey{Curve: curve, X: big.NewInt(1), Y: big.NewInt(1)}
}

// Keys that the crypto packages would panic with, or that are no public keys.
func TestJWTSubject_UnusableKey(t *testing.T) {
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256 := elliptic.P256()
	x, y := big.NewInt(0).SetBytes(ecKey.X.Bytes()), big.NewInt(0).SetBytes(ecKey.Y.Bytes())
	huge := new(big.Int).Lsh(big.NewInt(1), 4096)
	for name, key := range map[string]any{
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
		"Ed25519, private key":                   edPrivate,
		"Ed25519, private key, nil":              ed25519.PrivateKey(nil),
		"Ed25519, pointer, nil":                  (*ed25519.PublicKey)(nil),
		"secret, text":                           string(secret),
		"secret, pointer, nil":                   (*[]byte)(nil),
		"set, pointer, nil":                      (*jwt.VerificationKeySet)(nil),
		"set in a set":                           jwt.VerificationKeySet{Keys: []jwt.VerificationKey{jwt.VerificationKeySet{}}},
	} {
		t.Run(name, func(t *testing.T) {
			sizes := map[string]int{"HS256": 32, "RS256": 256, "PS256": 256, "ES256": 64, "ES384": 96, "ES512": 132, "EdDSA": 64} // of signatures
			algorithms := slices.Collect(maps.Keys(sizes))
			for _, returned := range []any{key, jwt.VerificationKeySet{Keys: []jwt.VerificationKey{key}}, jwt.VerificationKeySet{Keys: []jwt.VerificationKey{rsaKey().Public(), key}}} {
				f := keyfunc.JWTSubject(returning(returned), algorithms)
				for alg, size := range sizes {
					text := hs256(secret, `{"alg":"`+alg+`"}`, `{"sub":"victim","exp":4000000000}`)
					signature := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, size))
					wantError(t, f, bearer(text[:strings.LastIndexByte(text, '.')+1]+signature), keyfunc.ErrNoToken)
				}
			}
		})
	}
}

// A fault of the application is logged, but at most once a minute: clients choose
// how often it is met. An unknown key ID is no fault of the application.
func TestJWTSubject_LogsUnusableKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		key  any
		want int // lines in 61 s
	}{
		{"short secret", []byte("short"), 2},
		{"public key as secret", []byte("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host"), 2},
		{"ECDSA, off the curve", offCurve(elliptic.P256()), 2},
		{"secret of an unknown key ID", []byte(nil), 0},
		{"ECDSA key of an unknown key ID", new(ecdsa.PublicKey), 0},
		{"no key", nil, 0},
		{"good secret", longSecret, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bearer(token(`"sub":"alice"`))
				user := keyfunc.JWTSubject(returning(c.key), []string{"HS256", "ES256"})
				f := keyfunc.FirstOf(user, constant("anonymous"))
				lines := logged(t, func() {
					for range 61 {
						for range 5 {
							wantKey(t, f, r, "anonymous")
						}
						time.Sleep(time.Second)
					}
				})
				if n := strings.Count(lines, "\n"); n != c.want {
					t.Errorf("%d lines, want %d:\n%s", n, c.want, lines)
				}
			})
		})
	}
}

// logged returns what f writes to the default logger.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	f()
	return b.String()
}
