package main

import "fmt"

// badge returns a picture of two fields. A character is taken as 7 units wide, and fonts of other widths are fitted.
func badge(label, value string) string {
	left, right := 7*len([]rune(label)), 7*len([]rune(value))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="%[2]s: %[3]s">
<rect width="%[1]d" height="20" rx="3" fill="#2a5d84"/>
<path d="M3 0h%[4]dv20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3" fill="#444"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="6" y="14" textLength="%[5]d" lengthAdjust="spacingAndGlyphs">%[2]s</text>
<text x="%[6]d" y="14" textLength="%[7]d" lengthAdjust="spacingAndGlyphs">%[3]s</text>
</g>
</svg>
`, left+right+24, label, value, left+9, left, left+18, right)
}
