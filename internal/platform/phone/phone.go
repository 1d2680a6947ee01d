// Package phone parses telephone numbers in E.164, and knows which numbers are national forms of
// the same number.
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

// Key returns the same key for all national forms of one number, because the messaging network
// may answer with another form than we sent. Numbers of different people have different keys.
//
//   - Brazil: mobile numbers got a ninth digit, a 9 before those that start with 6 to 9.
//     Eight digits that start otherwise are a landline.
//   - Mexico: the 1 that was once written before mobile numbers.
//   - Argentina: the 9 that is written before mobile numbers when they are called from abroad.
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
