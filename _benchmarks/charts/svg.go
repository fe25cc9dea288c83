package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// A theme has the colours of a chart for a light or a dark page. The page shows through.
type theme struct {
	name, text, muted, grid, weir, peer string

	lines [4]string // of different kinds of limiters
}

var themes = []theme{
	{"light", "#1f2328", "#59636e", "#d1d9e0", "#0969da", "#818b98", [4]string{"#0969da", "#1a7f37", "#bc4c00", "#8250df"}},
	{"dark", "#f0f6fc", "#9198a1", "#3d444d", "#4493f8", "#9198a1", [4]string{"#4493f8", "#3fb950", "#db6d28", "#ab7df8"}},
}

// A drawing is an SVG of 800 units width.
type drawing struct{ strings.Builder }

const width = 800

// draw returns an SVG with the elements that add writes. Screen readers read the title and the
// description.
func draw(t theme, height float64, title, description string, add func(d *drawing)) string {
	var d drawing
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-labelledby="title description">
<title id="title">%s</title>
<desc id="description">%s</desc>
<style>
text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: %s }
.title { font-size: 18px; font-weight: 600 }
.muted { fill: %[6]s }
.weir { fill: %[7]s; font-weight: 600 }
</style>
`, width, height, escape(title), escape(description), t.text, t.muted, t.weir)
	add(&d)
	d.WriteString("</svg>\n")
	return d.String()
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// text writes s at (x, y). anchor is the part of s that is at x: start, middle or end.
func (d *drawing) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(d, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, escape(s))
}

func (d *drawing) bar(x, y, width, height float64, colour string) {
	fmt.Fprintf(d, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n", x, y, width, height, colour)
}

// A point is a position in a drawing.
type point struct{ x, y float64 }

func (d *drawing) line(points []point, thickness float64, colour string) {
	var path []string
	for _, p := range points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", p.x, p.y))
	}
	fmt.Fprintf(d, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linejoin=\"round\"/>\n",
		strings.Join(path, " "), colour, thickness)
}

func (d *drawing) dot(p point, colour string) {
	fmt.Fprintf(d, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", p.x, p.y, colour)
}
