package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// A provider stands for an identity provider: it serves its public key as a JSON Web Key Set (RFC 7517) at url, and
// signs tokens.
type provider struct {
	url   string
	key   *rsa.PrivateKey
	close func() error
}

const keyID = "key-1"

func newProvider() (*provider, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	public, err := jwkset.NewJWKFromKey(key.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: keyID}})
	if err != nil {
		return nil, err
	}
	set, err := json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{public.Marshal()}})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	})}
	go func() { _ = server.Serve(listener) }()
	return &provider{"http://" + listener.Addr().String(), key, server.Close}, nil
}

// token returns a token of a user, for a day. An empty plan is none.
func (p *provider) token(user, plan string) string {
	claims := jwt.MapClaims{"iss": p.url, "sub": user, "aud": "notes", "exp": jwt.NewNumericDate(time.Now().Add(24 * time.Hour))}
	if plan != "" {
		claims["plan"] = plan
	}
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"] = keyID
	signed, err := t.SignedString(p.key)
	if err != nil {
		panic(err) // an RSA key always signs
	}
	return signed
}
