package keyfunc_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

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
		{jwt.SigningMethodHS512, secret, secret},
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
	set := jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte("an older secret"), secret}}
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return set, nil }, []string{"HS256"})
	wantKey(t, f, bearer(token(`"sub":"alice"`)), "user:alice")
	wantError(t, f, bearer(hs256([]byte("another"), goodHeader, `{"sub":"alice","exp":4000000000}`)), keyfunc.ErrNoToken)
}
