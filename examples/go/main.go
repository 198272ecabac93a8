// Prints a token for a user, signed with golang-jwt: go run . private.pem alice
// A server with --jwt-key @public.pem --jwt-audience push accepts it.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func main() {
	pem, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	key, err := jwt.ParseECPrivateKeyFromPEM(pem)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"sub": os.Args[2],
		"aud": "push",
		"iat": now.Unix(),
		"exp": now.Add(5 * time.Minute).Unix(),
		"thalweg": map[string][]string{
			"subscribe": {"users/{sub}/**", "news/*"},
			"publish":   {"users/{sub}/out"},
		},
	})
	signed, err := token.SignedString(key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(signed)
}
