package format

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
)

// mechanism is one of SCRAM's.
type mechanism struct {
	name          string // in messages it has _ where this has -
	code          int8
	hash          func() hash.Hash
	minIterations int
	maxIterations int
}

var mechanisms = []mechanism{
	{"SCRAM-SHA-256", 1, sha256.New, 4096, 16384},
	{"SCRAM-SHA-512", 2, sha512.New, 4096, 16384},
}

// defaultIterations are those of a credential that says nothing of them.
const defaultIterations = 4096

// parseScram reads MECHANISM=[name=…,password=…], or with salt and saltedpassword in base64 instead of the password; iterations may
// be there too.
func parseScram(rnd env.Rand, text string) (*metadata.UserScramCredentialRecord, error) {
	text = strings.TrimSpace(text)
	name, list, ok := strings.Cut(text, "=")
	if !ok {
		return nil, fmt.Errorf("Failed to find equals sign in SCRAM argument '%s'", text)
	}
	i := slices.IndexFunc(mechanisms, func(m mechanism) bool { return m.name == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("The add-scram mechanism %s is not supported.", name)
	case !strings.HasPrefix(list, "["):
		return nil, errors.New("Expected configuration string to start with [")
	case !strings.HasSuffix(list, "]"):
		return nil, errors.New("Expected configuration string to end with ]")
	}
	c := credential{mechanism: mechanisms[i], iterations: defaultIterations}
	if err := c.parse(list[1 : len(list)-1]); err != nil {
		return nil, err
	}
	return c.record(rnd)
}

// credential is what the argument says.
type credential struct {
	mechanism      mechanism
	name           string
	password       string
	salt           []byte // nil: to be drawn
	saltedPassword []byte // nil: to be made of the password
	iterations     int
}

func (c *credential) parse(list string) error {
	values := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("No equals sign found in SCRAM component: %s", item)
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		values[key] = value
	}
	take := func(key string) (string, bool) {
		v, ok := values[key]
		delete(values, key)
		return v, ok
	}
	var ok bool
	if c.name, ok = take("name"); !ok {
		return errors.New("You must supply 'name' to add-scram")
	}
	if err := c.parseNumbers(take); err != nil {
		return err
	}
	if len(values) > 0 {
		var unknown []string
		for key := range values {
			unknown = append(unknown, key)
		}
		slices.Sort(unknown)
		return fmt.Errorf("Unknown SCRAM configurations: %s", strings.Join(unknown, ", "))
	}
	return nil
}

func (c *credential) parseNumbers(take func(key string) (string, bool)) error {
	var err error
	salt, hasSalt := take("salt")
	if hasSalt {
		if c.salt, err = base64.StdEncoding.DecodeString(salt); err != nil {
			return fmt.Errorf("Failed to decode given salt: %s", salt)
		}
	}
	if n, ok := take("iterations"); ok {
		if c.iterations, err = strconv.Atoi(n); err != nil {
			return fmt.Errorf("Failed to parse iterations count: %s", n)
		}
	}
	password, hasPassword := take("password")
	salted, hasSalted := take("saltedpassword")
	switch {
	case hasPassword && hasSalted:
		return errors.New("You must supply only one of 'password' or 'saltedpassword' to add-scram")
	case hasPassword && password == "":
		return errors.New("The 'password' of add-scram is empty")
	case hasPassword:
		c.password = password
		return nil
	case !hasSalted:
		return errors.New("You must supply one of 'password' or 'saltedpassword' to add-scram")
	case !hasSalt:
		return errors.New("You must supply 'salt' with 'saltedpassword' to add-scram")
	}
	if c.saltedPassword, err = base64.StdEncoding.DecodeString(salted); err != nil {
		return errors.New("Failed to decode given saltedPassword")
	}
	return nil
}

// record makes the keys of RFC 5802 from the credential.
func (c *credential) record(rnd env.Rand) (*metadata.UserScramCredentialRecord, error) {
	m := c.mechanism
	label := strings.ReplaceAll(m.name, "-", "_")
	switch {
	case c.iterations < m.minIterations:
		return nil, fmt.Errorf("The 'iterations' value must be >= %d for add-scram using %s", m.minIterations, label)
	case c.iterations > m.maxIterations:
		return nil, fmt.Errorf("The 'iterations' value must be <= %d for add-scram using %s", m.maxIterations, label)
	}
	if c.salt == nil {
		c.salt = randomSalt(rnd)
	}
	if c.saltedPassword == nil {
		var err error
		if c.saltedPassword, err = pbkdf2.Key(m.hash, c.password, c.salt, c.iterations, m.hash().Size()); err != nil {
			return nil, fmt.Errorf("make salted password: %w", err)
		}
	}
	sign := func(text string) []byte {
		h := hmac.New(m.hash, c.saltedPassword)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := m.hash()
	stored.Write(sign("Client Key"))
	r := metadata.NewUserScramCredentialRecord()
	r.Name, r.Mechanism, r.Salt, r.Iterations = c.name, m.code, c.salt, int32(c.iterations)
	r.StoredKey, r.ServerKey = stored.Sum(nil), sign("Server Key")
	return r, nil
}

// randomSalt is 26 letters and digits, as Kafka's: about 134 bits.
func randomSalt(rnd env.Rand) []byte {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 26)
	for i := range b {
		b[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return b
}
