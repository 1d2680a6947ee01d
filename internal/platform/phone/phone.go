// Package phone reads telephone numbers in E.164 and tells which of them are one number in
// several national forms.
package phone

import "strings"

// The bounds of a number's digits, those of the contract.
const (
	minDigits = 7
	maxDigits = 15
)

// Parse reads a number with or without its leading plus and returns it with one.
func Parse(text string) (number string, ok bool) {
	digits := strings.TrimPrefix(text, "+")
	if len(digits) < minDigits || len(digits) > maxDigits || digits[0] == '0' || !allDigits(digits) {
		return "", false
	}
	return "+" + digits, true
}

// Prefix reads the beginning of a number, with or without its plus.
func Prefix(text string) (prefix string, ok bool) {
	digits := strings.TrimPrefix(text, "+")
	if text == "" || len(digits) > maxDigits || !allDigits(digits) {
		return "", false
	}
	return "+" + digits, true
}

func allDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// Key is equal for the national forms of one number, in which the network may answer with
// another form than it was asked for. Numbers of two people never have one key.
//
//   - Brazil: mobile numbers got a ninth digit, a 9 before those that start with 6 to 9.
//     Eight digits that start otherwise are a landline.
//   - Mexico: the 1 that once told mobile numbers from others.
//   - Argentina: the 9 that tells mobile numbers called from abroad.
func Key(number string) string {
	digits := strings.TrimPrefix(number, "+")
	switch {
	case strings.HasPrefix(digits, "55") && len(digits) == 12 && digits[4] >= '6':
		return digits[:4] + "9" + digits[4:]
	case strings.HasPrefix(digits, "521") && len(digits) == 13:
		return "52" + digits[3:]
	case strings.HasPrefix(digits, "549") && len(digits) == 13:
		return "54" + digits[3:]
	default:
		return digits
	}
}
