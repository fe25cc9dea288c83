// Package browser tests the pages of weir in Chromium. make browser runs it.
package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pictures is the directory that Picture writes to.
var pictures = flag.String("pictures", "", "write the pictures of the documentation to this `directory`")

// A Tab is a tab of a browser. Its methods end the test if they fail.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string            // on the console
	origins  map[string]struct{} // of all requests
}

// Open starts a browser with one tab. At the end of the test it checks that the tab has reported no
// problem, and has sent requests to one origin only.
func Open(t *testing.T) *Tab {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	tab := &Tab{t: t, ctx: ctx, origins: make(map[string]struct{})}
	tab.check(chromedp.Do(ctx))
	tab.check(chromedp.Listen(ctx, tab.event))
	tab.check(chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		if _, err := cdp.Call(ctx, to, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, to, log.Enable, cdp.Empty{})
		return err
	})))
	t.Cleanup(tab.verify)
	return tab
}

func (b *Tab) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *Tab) event(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.problems = append(b.problems, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			b.origins[u.Host] = struct{}{}
		}
	}
}

// Problems returns the messages of the console so far, and forgets them.
func (b *Tab) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.problems
	b.problems = nil
	return all
}

func (b *Tab) verify() {
	if p := b.Problems(); len(p) > 0 {
		b.t.Errorf("the console shows %q", p)
	}
	if len(b.origins) != 1 {
		b.t.Errorf("the page has sent requests to %v, want one origin", b.origins)
	}
}

// Go opens a URL.
func (b *Tab) Go(address string) {
	b.t.Helper()
	b.check(chromedp.Do(b.ctx, chromedp.Navigate(address)))
}

// Eval evaluates an expression of JavaScript.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Text returns the text of an element.
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// Press sends keys to the element that has the focus.
func (b *Tab) Press(keys string) {
	b.t.Helper()
	b.check(chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// Wait polls until the text of an element contains want.
func (b *Tab) Wait(selector, want string) {
	b.t.Helper()
	b.Until(func() (string, bool) {
		got := b.Text(selector)
		return fmt.Sprintf("%s is %q, want %q in it", selector, got, want), strings.Contains(got, want)
	})
}

// Until polls ok for twenty seconds.
func (b *Tab) Until(ok func() (state string, ok bool)) {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		state, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal(state)
		}
		select { // polling a server
		case <-b.ctx.Done():
			b.t.Fatal(b.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Show sets the size of the window, and the theme, "light" or "dark".
func (b *Tab) Show(width, height int64, theme string) {
	b.t.Helper()
	var opts []chromedp.EmulateViewportOption
	if width < 500 {
		opts = append(opts, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	b.check(chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height, opts...), chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	})))
}

// Fits checks that the page is not wider than the window.
func (b *Tab) Fits() {
	b.t.Helper()
	if wide := Eval[[]int](b, "[document.scrollingElement.scrollWidth, innerWidth]"); wide[0] > wide[1] {
		b.t.Errorf("the page is %d wide, the window %d", wide[0], wide[1])
	}
}

// Picture takes a picture of the page, checks that it shows something, and writes the upper part of it,
// height pixels, with the flag -pictures.
func (b *Tab) Picture(name string, height int) {
	b.t.Helper()
	data, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.check(err)
	picture, err := png.Decode(bytes.NewReader(data))
	b.check(err)
	colors := make(map[color.Color]struct{})
	size := picture.Bounds()
	for y := range min(height, size.Max.Y) {
		for x := range size.Max.X {
			colors[picture.At(x, y)] = struct{}{}
		}
	}
	if len(colors) < 20 {
		b.t.Errorf("the picture %s has %d colors", name, len(colors))
	}
	if *pictures == "" {
		return
	}
	size.Max.Y = min(height, size.Max.Y)
	part := image.NewRGBA(size)
	draw.Draw(part, size, picture, image.Point{}, draw.Src)
	file, err := os.Create(filepath.Join(*pictures, name+".png"))
	b.check(err)
	b.check((&png.Encoder{CompressionLevel: png.BestCompression}).Encode(file, part))
	b.check(file.Close())
}

// Tab moves the focus to the next element until it matches a selector, as a user without a mouse does.
func (b *Tab) Tab(selector string) {
	b.t.Helper()
	var seen []string
	for range 100 {
		b.Press("\t")
		at := Eval[string](b, "document.activeElement.outerHTML.slice(0, 60)")
		if Eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		if slices.Contains(seen, at) && at == seen[0] {
			break
		}
		seen = append(seen, at)
	}
	b.t.Fatalf("the focus does not reach %s: %q", selector, seen)
}
