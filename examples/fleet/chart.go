package main

import (
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The picture has a panel for each strategy, one above the other and on the same
// scales: each second in which the origin was asked is a line as high as it was
// asked. The scale is logarithmic, or what jitter leaves would not be seen.

const (
	pictureWidth  = 800 // pixels
	pictureHeight = 560
	dotsPerInch   = 96
)

var (
	inkColor   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faintColor = color.RGBA{0x80, 0x80, 0x80, 0xff}
	gridColor  = color.RGBA{0xd4, 0xd4, 0xd4, 0xff}
	loadColor  = color.RGBA{0x1f, 0x4e, 0x9c, 0xff}
	peakColor  = color.RGBA{0xd9, 0x5f, 0x02, 0xff}
)

// writePicture draws what became of a fleet into a PNG file.
func writePicture(path string, f fleet, results []result) error {
	highest := 1
	for _, r := range results {
		highest = max(highest, r.loads[0], r.peak)
	}
	canvas := vgimg.NewWith(vgimg.UseWH(pixels(pictureWidth), pixels(pictureHeight)), vgimg.UseDPI(dotsPerInch))
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	title := style(11, inkColor)
	title.Font.Weight = xfont.WeightBold
	title.XAlign = draw.XCenter
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y - vg.Points(18)},
		fmt.Sprintf("Loads at the origin: %d replicas started at once, %d hot keys, lifetime %s", f.replicas, f.keys, short(f.ttl)))
	// The axes have one label for all panels.
	label := style(9, inkColor)
	label.XAlign, label.YAlign = draw.XCenter, draw.YCenter
	c.FillText(label, vg.Point{X: c.Center().X, Y: vg.Points(12)}, "minutes since the start")
	label.Rotation = math.Pi / 2
	c.FillText(label, vg.Point{X: vg.Points(12), Y: c.Center().Y}, "loads per second (logarithmic scale)")
	tiles := draw.Tiles{
		Rows: len(results), Cols: 1, PadY: vg.Points(12),
		PadTop: vg.Points(32), PadBottom: vg.Points(22), PadLeft: vg.Points(22), PadRight: vg.Points(12),
	}
	for i, r := range results {
		newPanel(r, float64(highest)).Draw(tiles.At(c, 0, i))
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return errors.Join(encoder.Encode(file, canvas.Image()), file.Close())
}

func pixels(n int) vg.Length { return vg.Length(n) / dotsPerInch * vg.Inch }

// newPanel returns the panel of one strategy.
func newPanel(r result, highest float64) *plot.Plot {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: at most %s per second after the first (dashed)", r.label, grouped(r.peak))
	p.Title.TextStyle.Font = style(9.5, inkColor).Font
	p.Title.TextStyle.Font.Weight = xfont.WeightBold
	p.Title.TextStyle.Color = inkColor
	p.Title.Padding = vg.Points(4)
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.TickerFunc(decades)
	p.X.Tick.Marker = plot.TickerFunc(everyFive)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font = style(8.5, inkColor).Font
		a.Tick.Label.Color = inkColor
		a.Tick.LineStyle.Color, a.LineStyle.Color = faintColor, faintColor
		a.Padding = 0
	}
	p.X.Min, p.X.Max = -0.2, float64(len(r.loads))/60
	p.Y.Min, p.Y.Max = 0.5, highest*1.5
	p.Add(seconds(r.loads))
	if r.peak > 0 {
		p.Add(peak(r.peak))
	}
	return p
}

// seconds are the loads in each second.
type seconds []int

func (s seconds) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, t := range decades(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: gridColor, Width: vg.Points(0.7)}, c.Min.X, toY(t.Value), c.Max.X, toY(t.Value))
	}
	for second, n := range s {
		if n > 0 {
			x := toX(float64(second) / 60)
			c.StrokeLine2(draw.LineStyle{Color: loadColor, Width: vg.Points(1)}, x, c.Min.Y, x, toY(float64(n)))
		}
	}
}

// peak is a line at the most loads per second after the first second.
type peak int

func (n peak) Plot(c draw.Canvas, p *plot.Plot) {
	_, toY := p.Transforms(&c)
	y := toY(float64(n))
	c.StrokeLine2(draw.LineStyle{Color: peakColor, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}, c.Min.X, y, c.Max.X, y)
}

// decades are ticks for a logarithmic axis of whole numbers.
func decades(_, to float64) (ticks []plot.Tick) {
	for n := 1; float64(n) <= to; n *= 10 {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: grouped(n)})
	}
	return ticks
}

// grouped is a number with its digits in groups of three.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// everyFive are ticks for minutes.
func everyFive(from, to float64) (ticks []plot.Tick) {
	step := 5.0
	for (to-from)/step > 12 {
		step *= 2
	}
	for (to-from)/step < 3 {
		step /= 5
	}
	for v := 0.0; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
	}
	return ticks
}

// style is the style of text of some size, in points.
func style(size float64, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size)),
		Handler: plot.DefaultTextHandler,
	}
}

// short is a duration without units of which there are none.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
