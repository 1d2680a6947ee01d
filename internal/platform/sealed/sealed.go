// Package sealed encrypts stored secrets. A Keyring is built from the operator's master keys.
// Each purpose has derived keys of its own, so that a cursor can never be opened as a stored
// answer. The first master key seals; all of them open.
package sealed

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/secretdata"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// KeyBytes is the length of a master key in bytes.
const KeyBytes = 32

// Keyring derives the keys of every purpose.
type Keyring struct{ masters [][]byte }

// NewKeyring takes master keys as base64 of 32 bytes, the newest first.
func NewKeyring(encoded []string) (*Keyring, error) {
	if len(encoded) == 0 {
		return nil, errors.New("no master key: generate one with `openssl rand -base64 32`")
	}
	ring := &Keyring{}
	for i, text := range encoded {
		master, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(master) != KeyBytes {
			return nil, fmt.Errorf("master key %d is not base64 of %d bytes: generate one with `openssl rand -base64 %d`", i+1, KeyBytes, KeyBytes)
		}
		if slices.ContainsFunc(ring.masters, func(known []byte) bool { return hmac.Equal(known, master) }) {
			return nil, fmt.Errorf("master key %d is listed twice", i+1)
		}
		ring.masters = append(ring.masters, master)
	}
	return ring, nil
}

func derive(master []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, master, nil, "parley/"+purpose, KeyBytes)
}

// Box seals and opens the values of one purpose.
type Box struct {
	primitive tink.AEAD
	// prefixes are the first bytes of values, by the key that sealed them; the newest key is first.
	prefixes [][]byte
}

// Box derives the box of a purpose from every master key.
func (k *Keyring) Box(purpose string) (*Box, error) {
	parameters, err := aesgcm.NewParameters(aesgcm.ParametersOpts{
		KeySizeInBytes: KeyBytes, IVSizeInBytes: 12, TagSizeInBytes: 16, Variant: aesgcm.VariantTink,
	})
	if err != nil {
		return nil, err
	}
	manager := keyset.NewManager()
	var prefixes [][]byte
	for i, master := range k.masters {
		material, err := derive(master, "seal/"+purpose)
		if err != nil {
			return nil, err
		}
		key, err := aesgcm.NewKey(secretdata.NewBytesFromData(material, insecuresecretdataaccess.Token{}), keyID(material), parameters)
		if err != nil {
			return nil, err
		}
		id, err := manager.AddKey(key)
		if err != nil {
			return nil, fmt.Errorf("master key %d: %w", i+1, err)
		}
		prefixes = append(prefixes, key.OutputPrefix())
		if i == 0 {
			if err := manager.SetPrimary(id); err != nil {
				return nil, err
			}
		}
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, err
	}
	return &Box{primitive: primitive, prefixes: prefixes}, nil
}

// NewestPrefix is the first bytes of each value that was sealed under the newest key: Tink's id of the key.
func (b *Box) NewestPrefix() []byte { return b.prefixes[0] }

// Prefixes are the first bytes of all values that the box can open. They are equally long.
func (b *Box) Prefixes() [][]byte { return b.prefixes }

// ErrOtherKey means that none of the master keys opens a value.
var ErrOtherKey = errors.New("sealed under a master key that is not here")

// Reseal returns a value sealed under the newest key.
func (b *Box) Reseal(value, identity []byte) ([]byte, error) {
	plain, err := b.Open(value, identity)
	if err != nil {
		return nil, err
	}
	return b.Seal(plain, identity)
}

// keyID names a key inside its ciphertexts; it must be the same in every process.
func keyID(material []byte) uint32 {
	digest := sha256.Sum256(material)
	return binary.BigEndian.Uint32(digest[:4]) | 1
}

// Seal encrypts a value. Open needs the same identity, so that a ciphertext that was copied to
// another row cannot be opened.
func (b *Box) Seal(value, identity []byte) ([]byte, error) {
	return b.primitive.Encrypt(value, identity)
}

// Open returns the value that was sealed. Its error gives no details.
func (b *Box) Open(value, identity []byte) ([]byte, error) {
	return b.primitive.Decrypt(value, identity)
}

// MAC makes fingerprints of values. A reader of the database cannot guess a value and check it,
// because that needs the key.
type MAC struct{ keys [][]byte }

// MAC derives the keys of a purpose from every master key.
func (k *Keyring) MAC(purpose string) (*MAC, error) {
	mac := &MAC{}
	for _, master := range k.masters {
		key, err := derive(master, "mac/"+purpose)
		if err != nil {
			return nil, err
		}
		mac.keys = append(mac.keys, key)
	}
	return mac, nil
}

// Sum returns the fingerprint of the parts with the newest key.
func (m *MAC) Sum(parts ...[]byte) []byte { return sum(m.keys[0], parts) }

// Matches reports in constant time whether any key gives the parts this fingerprint.
func (m *MAC) Matches(fingerprint []byte, parts ...[]byte) bool {
	for _, key := range m.keys {
		if hmac.Equal(fingerprint, sum(key, parts)) {
			return true
		}
	}
	return false
}

// sum hashes the length before each part, so that ("ab", "c") and ("a", "bc") differ.
func sum(key []byte, parts [][]byte) []byte {
	digest := hmac.New(sha256.New, key)
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write(part)
	}
	return digest.Sum(nil)
}
