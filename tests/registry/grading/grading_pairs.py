"""Pairs of equal answers, pairs of different answers, and hostile answers."""

from __future__ import annotations

EQUAL = [
    # numbers
    *[("42", "42"), ("07", "7"), ("70.0", "70"), ("0.5", "\\frac{1}{2}"), (".5", "1/2"), ("+3", "3")],
    *[("\\dfrac{3}{6}", "\\frac{1}{2}"), ("\\tfrac12", "0.5"), ("-\\frac{1}{2}", "-0.5"), ("5.", "5")],
    *[("\\frac{-1}{2}", "-\\frac12"), ("\\frac{1}{-2}", "-1/2"), ("\\frac1{72}", "\\frac{1}{72}")],
    *[("3\\frac12", "3.5"), ("3\\frac{1}{2}", "7/2"), ("-1\\frac14", "-1.25"), ("\\frac{17}5", "3.4")],
    *[("1,000,000", "1000000"), ("10,\\!000", "10000"), ("10{,}000", "10000"), ("$7$", "7.")],
    *[("0.\\overline{3}", "\\frac13"), ("0.1\\overline{6}", "1/6"), ("-1.\\overline{09}", "-\\frac{12}{11}")],
    *[("2^{10}", "1024"), ("5!", "120"), ("\\binom{5}{2}", "10"), ("\\log_2 8", "3"), ("10^{-3}", "0.001")],
    *[("\\sqrt{16}", "4"), ("3\\cdot 10^8", "300000000"), ("6.02 \\times 10^3", "6020")],
    *[("2 \\times 3", "6"), ("\\sin 30^\\circ + 7.5 - \\sin 30^\\circ", "7.5"), ("|{-3}|", "3")],
    ("\\lfloor 2.7 \\rfloor", "2"),
    # numbers with e, thousands, and tiny numbers
    *[("6.02e23", "6.02\\times10^{23}"), ("1e-5", "0.00001"), ("2.5E4", "25000"), ("1.5 x 10^3", "1500")],
    *[("3*10^8", "300000000"), ("11,\\! 111,\\! 100", "11111100")],
    *[("\\frac{2}{2^{99}}", "\\frac{1}{2^{98}}"), ("\\frac{1}{20!}", "\\frac{20}{20 \\cdot 20!}")],
    *[("10^{-30}", "1e-30"), ("\\frac{3x}{30!}", "\\frac{9x}{3\\cdot30!}")],
    # keyboards and Unicode
    *[("\u00be", "0.75"), ("x\u00b2+y\u00b9\u2070", "x^2+y^{10}"), ("3\u221a(x+1)", "3\\sqrt{x+1}")],
    *[("\u03b8/2", "\\frac{\\theta}{2}"), ("sqrt(2)/2", "\\frac{\\sqrt2}{2}"), ("2*pi", "2\\pi")],
    *[("exp(x)", "e^x"), ("ln(3)", "\\ln 3"), ("x**2", "x^2"), ("2^(1/2)", "\\sqrt2")],
    *[("x >= 3", "[3,\\infty)"), ("1 + -3i", "1-3i"), ("(-inf, 2)", "(-\\infty,2)"), ("\\approx 3.2", "3.2")],
    *[("\uff14", "4"), ("x^10", "x^{10}")],
    # relations and sets in another form
    *[("4x-1=y", "y=4x-1"), ("y=2x+3", "y-2x=3"), ("|x|<3", "(-3,3)")],
    *[("|x|>1", "(-\\infty,-1)\\cup(1,\\infty)"), ("\\{x \\mid x \\le 2\\}", "(-\\infty,2]")],
    *[("x\\in\\mathbb{R}", "(-\\infty,\\infty)"), ("\\varnothing", "\\emptyset")],
    *[("\\text{no solution}", "\\emptyset"), ("\\mathbb R", "\\text{all reals}")],
    *[("a=1,b=2;a=3,b=4", "(1,2),(3,4)"), ("x \\ne 2", "(-\\infty,2)\\cup(2,\\infty)")],
    # units
    *[("2\\text{ hours}", "120\\text{ minutes}"), ("1\\text{ hour }30\\text{ minutes}", "1.5\\text{ hours}")],
    *[("5\\text{ cm}", "50\\text{ mm}"), ("9\\text{ sq ft}", "1\\text{ yd}^2")],
    *[("50\\text{ cents}", "0.5\\text{ dollars}"), ("36\\text{ km/h}", "10\\text{ meters per second}")],
    *[("3 cm", "3"), ("9\\text{ a.m.}", "9")],
    # units, degrees, percent, money, words around a number
    *[("90^\\circ", "90"), ("90^{\\circ}", "90"), ("90\u00b0", "90"), ("90\\degree", "90"), ("18\\%", "18")],
    *[("18%", "18"), ("\\$18", "18"), ("\\$6.50", "6.5"), ("18 dollars", "18"), ("7 \\text{ days}", "7")],
    *[("6\\text{ cm}^2", "6"), ("6 \\mbox{ cm}^{2}", "6"), ("12\\,\\mathrm{m}", "12"), ("3 hours", "3")],
    *[("5\\text{ inches}", "5"), ("\\$1{,}000", "1000"), ("4\\sqrt{2} \\text{ feet}", "4\\sqrt{2}")],
    *[("x = 5", "5"), ("y=-2", "-2"), ("5", "x=5"), ("f(x) = x^2", "x^2"), ("x_1 = 3", "3")],
    # spelling
    *[("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"), ("\\pi/2", "\\frac{\\pi}{2}")],
    *[("\\text{Evelyn}", "Evelyn"), ("\\text{even}", "Even"), ("\\textbf{(C)}", "C"), ("\\text{(A)}", "(A)")],
    *[("\\text{no real roots}", "no real roots"), ("2516_8", "2516_{8}"), ("\\sqrt2", "\\sqrt{2}")],
    *[("\\dfrac{\\sqrt3}{2}", "\\frac{\\sqrt{3}}{2}"), ("\\displaystyle\\frac{x}{2}", "\\frac{x}{2}")],
    *[("\u22123", "-3"), ("2\u03c0", "2\\pi"), ("x \u2264 3", "x \\leq 3"), ("\\( 4 \\)", "4")],
    ("4 \\quad", "4"),
    # surds, trigonometry, constants
    *[("\\sqrt{8}", "2\\sqrt{2}"), ("\\frac{1}{\\sqrt{3}}", "\\frac{\\sqrt{3}}{3}")],
    *[("\\sqrt{12}/2", "\\sqrt3"), ("\\frac{2}{\\sqrt{2}}", "\\sqrt{2}"), ("\\sqrt[3]{27}", "3")],
    *[("\\sqrt[3]{16}", "2\\sqrt[3]{2}"), ("\\sqrt{5+2\\sqrt{6}}", "\\sqrt{2}+\\sqrt{3}"), ("8^{1/3}", "2")],
    *[("2^{-1}", "0.5"), ("\\sin\\frac{\\pi}{6}", "\\frac12"), ("\\cos 0", "1")],
    *[("\\tan\\frac{\\pi}{4}", "1"), ("\\ln e", "1"), ("\\frac{3\\pi}{4}", "0.75\\pi")],
    *[("2\\pi r", "r \\cdot 2\\pi"), ("e^{2}", "e^2"), ("\\ln 9", "2\\ln 3")],
    *[("\\arctan 1", "\\frac{\\pi}{4}"), ("4+3i", "3i + 4"), ("2-i", "-i+2")],
    # algebra
    *[("x+1", "1+x"), ("x^2+2x+1", "(x+1)^2"), ("(x-1)(x+1)", "x^2-1"), ("\\frac{x+1}{2}", "0.5x+0.5")],
    *[("2(x+3)", "2x+6"), ("\\frac{x^2-1}{x-1}", "x+1"), ("ab", "ba"), ("3xy", "3yx"), ("a-b", "-(b-a)")],
    *[("x(x+1)", "x^2+x"), ("\\frac{a}{b}", "a/b"), ("\\frac{1}{x^2}", "x^{-2}")],
    *[("n(n+1)/2", "\\frac{n^2+n}{2}"), ("x^3-y^3", "(x-y)(x^2+xy+y^2)"), ("4x^2", "(2x)^2")],
    *[("y=2x+3", "2x+3"), ("2x+3", "y=2x+3"), ("y = 3 + 2x", "y = 2x+3"), ("x+y=1", "2x+2y=2")],
    *[("x+y-1=0", "x+y=1"), ("x^2+y^2=4", "y^2=4-x^2"), ("\\sin^2 x", "1-\\cos^2 x")],
    ("5x-7y+11z+4=0", "0=4+5x-7y+11z"),
    # lists and sets
    *[("1,2", "2,1"), ("1, 2, 3", "3,2,1"), ("\\{1,2\\}", "\\{2,1\\}"), ("1,2", "\\{2,1\\}"), ("{1}", "1")],
    *[("1 \\text{ and } 2", "1,2"), ("1 \\text{ or } 2", "2, 1"), ("3 and 4", "3,4")],
    *[("0.5,0.75", "3/4,1/2"), ("1+\\sqrt2,1-\\sqrt2", "1-\\sqrt{2}, 1+\\sqrt{2}")],
    *[("1\\pm\\sqrt{2}", "1+\\sqrt2,1-\\sqrt2"), ("\\pm 3", "3,-3"), ("-3, 3", "\\pm 3")],
    *[("60^\\circ,120^\\circ", "60^\\circ, 120^\\circ"), ("81,256", "81, 256")],
    *[("(1,2),(3,4)", "(3,4),(1,2)"), ("\\sqrt{8}, 1", "1, 2\\sqrt{2}"), ("\\{\\frac12, 3\\}", "0.5, 3.0")],
    *[("x=1, x=2", "1,2"), ("\\left\\{1, 4\\right\\}", "\\lbrace 1,4\\rbrace")],
    # tuples, intervals, unions
    *[("(1, 2)", "(1,2)"), ("(0.5, -1)", "(\\frac{1}{2},-1)"), ("(\\sqrt{4}, 3)", "(2,3)")],
    *[("(1,2,3)", "(1.0,2,3)"), ("(3,\\frac{\\pi}{2})", "\\left(3,\\dfrac{\\pi}{2}\\right)")],
    *[("(x+1, 2)", "(1+x, 2)"), ("(1,2)", "1,2"), ("[1,2]", "[1.0, 2]"), ("[0,\\infty)", "[0, \\infty)")],
    *[("(-\\infty,3]", "\\left(-\\infty, 3\\right]"), ("(-\\infty,3)", "x<3"), ("x<3", "(-\\infty,3)")],
    *[("x \\in [1,2]", "[1,2]"), ("1 \\le x \\le 2", "[1,2]"), ("(1,2) \\cup (3,4)", "(3,4)\\cup(1,2)")],
    *[("[-2,0.5]\\cup[1,2]", "[1,2] \\cup [-2,\\frac12]"), ("x > 2", "2 < x"), ("x \\ge 1", "1 \\leq x")],
    ("(-\\infty, -1) \u222a (1, \u221e)", "(-\\infty,-1)\\cup(1,\\infty)"),
    # values of names, and lists against tuples
    *[("x = 1, y = 2", "(1, 2)"), ("y = 2, x = 1", "(1,2)"), ("(x,y) = (1,2)", "x=1 \\text{ and } y=2")],
    *[("y=2, x=1", "x=1, y=2"), ("x=1, y=2", "1,2"), ("AB=9, CD=4", "9, 4")],
    *[("r=3, \\theta=\\pi", "(3,\\pi)"), ("f(n) = n, g(n) = 1", "(n, 1)")],
    *[("f(n)=n, g(n)=1", "g(n)=1, f(n)=n"), ("2x=2, y=2", "y=2, x=1"), ("(3, 1+\\sqrt2)", "3, 1+\\sqrt{2}")],
    *[("x=\\sqrt8, y=3", "(2\\sqrt2, 3)"), ("\\{1,2\\}", "(1,2)")],
    *[("x=1,y=2 \\text{ or } x=3,y=4", "(3,4),(1,2)"), ("(x,y)=(1,2),(3,4)", "(3,4),(1,2)")],
    *[("(\\sqrt8,1),(1,3)", "(1,3),(2\\sqrt2,1)"), ("(\\pm 1, 2)", "(1,2),(-1,2)"), ("AB=(2,1)", "(2,1)")],
    ("1\\pm\\sqrt2", "(1+\\sqrt2,1-\\sqrt2)"),
    ("\\frac{1\\pm\\sqrt5}{2}", "\\frac{1-\\sqrt5}{2},\\frac{1+\\sqrt5}{2}"),
    # matrices
    ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
    ("\\begin{pmatrix}0.5 & 1\\\\2 & 3\\end{pmatrix}", "\\begin{pmatrix} \\frac12&1 \\\\ 2&3 \\end{pmatrix}"),
    ("\\begin{bmatrix}1&0\\\\0&1\\end{bmatrix}", "\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}"),
    ("\\begin{pmatrix}\\sqrt{4}\\\\1\\end{pmatrix}", "\\begin{pmatrix}2\\\\1\\end{pmatrix}"),
    ("[[1,2]]", "\\begin{pmatrix}1&2\\end{pmatrix}"),
    # spellings that one rule alone reads
    *[("\u221b27", "3"), ("\\text{\\frac12}", "0.5"), ("5\\text{ m^{2}}", "5\\text{ m}^2"), ("50\u00a2", "\\$0.5")],
    *[("60 kph", "60"), ("60\\text{ km}/\\text{h}", "60\\text{ km/h}"), ("\\(x=5\\), \\(y=3\\)", "(5,3)")],
    *[("2x+3=y", "2x+3"), ("1+/-sqrt(2)", "1\\pm\\sqrt2"), ("abs(x)<3", "(-3,3)"), ("x^-2", "1/x^2"), ("3*x", "3x")],
    *[("x<=3", "(-\\infty,3]"), ("x>=3 or x<=1", "(-\\infty,1]\\cup[3,\\infty)"), ("1\\leq x\\lt 3", "[1,3)")],
    *[("x\\geqslant3", "[3,\\infty)"), ("x != 2", "x\\neq 2"), ("\\left\\lvert x\\right\\rvert<3", "(-3,3)")],
    *[
        ("\u0663\u0665", "35"),
        ("\u0394\u03bb", "\\Delta\\lambda"),
        ("\\pounds 5", "5\\text{ sterling}"),
        ("A\\$5", "5"),
    ],
]

DIFFERENT = [
    # numbers that nearly vanish
    *[("\\frac{1}{30!}", "\\frac{1}{31!}"), ("\\frac{3}{2^{99}}", "\\frac{5}{2^{99}}"), ("10^{-40}", "0")],
    *[("\\frac{x}{30!}", "\\frac{x}{31!}"), ("1e-20", "2e-20"), ("2^{100}", "2^{100}+1")],
    ("7^{-50}", "7^{-51}"),
    # names, and what a unit decides
    *[("r^2", "R^2"), ("AB", "BA"), ("P(A)=0.5", "P(B)=0.5"), ("x=5", "t=5")],
    *[("\\triangle ABC", "\\triangle ACB"), ("5\\text{ cm}^2", "5\\text{ cm}^3")],
    *[("9\\text{ a.m.}", "9\\text{ p.m.}"), ("5\\text{ hours}", "5\\text{ minutes}")],
    *[("2\\text{ hours }10\\text{ minutes}", "120\\text{ minutes}"), ("|x|<3", "(-3,4)")],
    *[("|x|<3", "[-3,3]"), ("\\emptyset", "0"), ("\\mathbb{R}", "(0,\\infty)"), ("1.5e3", "1.5e4")],
    ("\u00bd", "\u00bc"),
    # what other graders have taken for equal
    *[("5", "500"), ("5", "0.05"), ("500", "5"), ("0.1", "10\\%"), ("0.333", "1/3")],
    *[("0.333333", "\\frac13"), ("3.14", "\\pi"), ("3.14159", "\\pi"), ("1.414", "\\sqrt{2}")],
    *[("1.414214", "\\sqrt2"), ("22/7", "\\pi"), ("2s", "2"), ("x^2+1=0", "x^2+2=0")],
    *[("0.3", "0.\\overline{3}"), ("1/7", "0.142857"), ("99", "100"), ("100, 200", "100200")],
    *[("31/2", "3\\frac12"), ("12\\text{ million}", "12"), ("12 million", "12")],
    # numbers
    *[("1/0", "0"), ("\\frac{1}{0}", "0"), ("12", "1,2"), ("", "0"), ("-3", "3"), ("3", "-3"), ("2^3", "9")],
    *[("42", "43"), ("0.5", "\\frac{1}{3}"), ("\\frac23", "\\frac32"), ("1{,}000", "1")],
    *[("10^5", "10^6"), ("6!", "120"), ("1e3", "13"), ("07", "70"), ("1.0000000000000001", "1"), ("0", "-1")],
    *[("100000000000000000000000001", "100000000000000000000000002"), ("\\sqrt{17}", "4")],
    *[("3\\frac12", "3.2"), ("9^{9}", "9"), ("\\binom{5}{2}", "5/2"), ("\\log_2 8", "2"), ("|{-3}|", "-3")],
    *[("90^\\circ", "60^\\circ"), ("18\\%", "82\\%"), ("\\$6", "\\$7"), ("6\\text{ cm}", "7\\text{ cm}")],
    *[("x=5", "x=6"), ("5 hours", "6 hours")],
    # words and letters
    *[("\\text{even}", "\\text{odd}"), ("Evelyn", "Briana"), ("A", "B"), ("(A)", "(B)"), ("x", "y")],
    *[("\\text{no solution}", "0"), ("surely not this", "42"), ("infinity", "\\text{none}"), ("yes", "no")],
    *[("\\infty", "-\\infty"), ("x", "5"), ("\\text{A}", "1"), ("seven", "7"), ("\\pi", "p")],
    ("42 or so", "43"),
    # surds, trigonometry, constants
    *[("\\sqrt{8}", "2\\sqrt{3}"), ("\\sqrt{2}", "2"), ("\\frac{\\sqrt3}{2}", "\\frac{\\sqrt2}{2}")],
    *[("2\\pi", "\\pi"), ("\\sqrt[3]{8}", "\\sqrt{8}"), ("\\sin\\frac{\\pi}{6}", "\\frac{\\sqrt{3}}{2}")],
    *[("e", "\\pi"), ("e^2", "2e"), ("4+3i", "4-3i"), ("3+4i", "4+3i"), ("i", "-i"), ("\\ln 9", "\\ln 3")],
    *[("\\frac{\\pi}{2}", "\\frac{2}{\\pi}"), ("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5}")],
    *[("-\\sqrt{2}", "\\sqrt{2}"), ("\\pi^2", "2\\pi"), ("1+\\pi", "\\pi-1")],
    # algebra
    *[("x+1", "x+2"), ("x^2+1", "(x+1)^2"), ("x+y", "x-y"), ("\\frac{x}{2}", "\\frac{2}{x}"), ("2x", "x^2")],
    *[("x^2-2", "x^2-2y"), ("3xy", "3xz"), ("a/b", "b/a"), ("x^3", "x^2"), ("-(x+1)", "1-x"), ("n", "n+1")],
    *[("y=2x+3", "y=2x-3"), ("y=2x+3", "y=3x+2"), ("x+y=1", "x+y=2"), ("x+y=1", "x-y=1"), ("2x+3", "y=3x+2")],
    *[("x^2+y^2=4", "x^2+y^2=2"), ("\\sin x", "\\cos x"), ("\\sin^2 x", "\\cos^2 x"), ("x", "-x")],
    ("x^{-1}", "x"),
    # lists and sets
    *[("1,2", "1,3"), ("1,2", "1,2,3"), ("1,1,2", "1,2"), ("\\{1,2\\}", "\\{1\\}"), ("1", "1,2")],
    *[("1,2", "2"), ("\\pm 3", "3"), ("3", "\\pm 3"), ("1\\pm\\sqrt{2}", "1\\pm\\sqrt{3}")],
    *[("1+\\sqrt2", "1\\pm\\sqrt2"), ("0.5,0.25", "0.5,0.75"), ("(1,2),(3,4)", "(1,2),(4,3)")],
    *[("\\sqrt2, 1", "1, \\sqrt3"), ("81,256", "81, 257"), ("1 \\text{ and } 2", "1 \\text{ and } 3")],
    *[("x=1,x=2", "x=1,x=3"), ("\\{0,1\\}", "\\{0,-1\\}")],
    # tuples, intervals, unions
    *[("(1,2)", "(2,1)"), ("(1,2)", "[1,2]"), ("[1,2)", "[1,2]"), ("(1,2]", "[1,2)"), ("(1,2,3)", "(1,2)")],
    *[("(1,2)", "(1,3)"), ("(\\sqrt2,1)", "(\\sqrt3,1)"), ("(1,\\frac{\\pi}{2})", "(1,\\frac{\\pi}{3})")],
    *[("(-\\infty,3)", "(-\\infty,3]"), ("[0,\\infty)", "(0,\\infty)"), ("x<3", "x\\le 3"), ("x<3", "x>3")],
    *[("(1,2) \\cup (3,4)", "(1,2)"), ("(1,2)\\cup(3,4)", "(1,2)\\cup(3,5)"), ("x \\in [1,2]", "[1,3]")],
    *[("(-\\infty,3)", "x>3"), ("1 \\le x \\le 2", "[1,3]"), ("(3,0)", "3")],
    ("(0,3)", "(3, \\frac{\\pi}{2})"),
    # values of names, and lists against tuples
    *[("x = 1, y = 2", "(2,1)"), ("y = 2, x = 1", "(2,1)"), ("(x,y) = (1,2)", "(2,1)")],
    *[("x=2, y=1", "x=1, y=2"), ("x=2, y=1", "(x,y)=(1,2)"), ("f(n) = n, g(n) = 1", "(1,n)")],
    *[("AB=9, CD=4", "4, 9"), ("2,1", "(1,2)"), ("\\{1,2\\}", "(2,1)"), ("1,2", "[2,1]"), ("1,2", "[1,2]")],
    *[("x=1, y=2", "[1,2]"), ("a=1, b=2", "x=1, y=2"), ("3, 1+\\sqrt2", "(1+\\sqrt2, 3)")],
    *[("x=\\sqrt8, y=3", "(3,2\\sqrt2)"), ("1\\pm\\sqrt2", "(1-\\sqrt2,1+\\sqrt2)")],
    *[("x=1,y=2 \\text{ or } x=2,y=3", "(2,1),(3,2)"), ("(\\sqrt8,1),(1,3)", "(1,3),(1,2\\sqrt2)")],
    *[("x=1, y=2", "(1,2,3)"), ("x=1, y=2", "3"), ("AB=(2,1)", "1,2"), ("x<1, x>3", "(1,3)")],
    ("x=1, y=2", "x=1, z=2"),
    # matrices
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}2\\\\1\\end{pmatrix}"),
    ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}"),
    ("\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}", "1"),
]

_TOWERS = [f"{{{base}}}^{{" * height + str(base) + "}" * height for base in (3, 5, 9) for height in range(3, 19)]
_GROWTH = [
    template.format(size=size)
    for size in (10**5, 10**7, 10**9, 10**12)
    for template in (
        "{size}!",
        "({size}!)!",
        "{size}^{{{size}}}",
        "\\binom{{{size}}}{{{size}-77}}",
        "\\sum_{{k=1}}^{{{size}}} \\frac{{1}}{{k^3+k}}",
        "\\prod_{{k=1}}^{{{size}}} (k^2+1)",
        "(x+y+1)^{{{size}}} - (1+y+x)^{{{size}}}",
        "(x+1)^{{{size}}}",
        "\\sqrt[{size}]{{2^{{{size}}}+1}}",
        "\\int_0^{{{size}}} \\sin(x^{{{size}}}) e^{{x^2}} dx",
        "\\lim_{{x \\to 0}} \\frac{{\\sin(x^{{{size}}})}}{{x^{{{size}}}}}",
        "{size}^{{0.5}} - \\log_{{{size}}} 7^{{{size}}}",
        "\\begin{{pmatrix}}1&1\\\\1&0\\end{{pmatrix}}^{{{size}}}",
        "\\sin({size}^{{{size}}})",
        "\\lfloor \\pi^{{{size}}} \\rfloor",
    )
]
_DEPTH = [
    template * depth
    for depth in (9, 30, 90)
    for template in (
        "(",
        "{",
        "[",
        "\\sqrt{",
        "\\frac{",
        "\\frac1",
        "^",
        "2^",
        "\\text{",
        "\\left(",
        "\\{",
        "&",
        "\\\\",
        ",",
    )
]
_NESTED = [
    opening * depth + "x" + closing * depth
    for depth in (10, 25, 60)
    for opening, closing in (("(", ")"), ("\\sqrt{", "}"), ("\\frac{1}{1+", "}"), ("|", "|"), ("\\sin(", ")"))
]
_SPECIAL = [
    *(
        "%s%n",
        "\x00",
        "\ud7ff",
        "\u202e3",
        "\u0660",
        "0x10",
        "NaN",
        "inf",
        "1e999999999",
        "True",
        "None",
        "\\",
        "\\\\",
    ),
    *(
        "\\input{/etc/passwd}",
        "\\write18{id}",
        "\\newcommand{\\x}{\\x\\x}\\x",
        "a" * 390,
        "," * 390,
        " " * 390 + "x",
    ),
    *(
        "(" * 390,
        "1," * 190,
        "\\frac12" * 50,
        "-" * 390 + "1",
        "1 " * 190,
        "\\text{a}" * 40,
        "=" * 390,
        "x_" * 190,
    ),
]
_CODE = [
    "__import__('os').system('touch {marker}')",
    "open('{marker}','w').write('1')",
    "exec(\"open('{marker}','w')\")",
    "eval(\"open('{marker}','w')\")",
    "(lambda: open('{marker}','w'))()",
    "[c for c in ().__class__.__base__.__subclasses__()]",
    "\\text{__import__('os').system('touch {marker}')}",
    "Symbol('x').__class__.__init__.__globals__['__builtins__']['open']('{marker}','w')",
    "\\operatorname{open}('{marker}', 'w')",
    "x.subs(x, __import__('pathlib').Path('{marker}').touch())",
    "'; touch {marker}; '",
    "$(touch {marker})",
]


def hostile(marker: str) -> list[str]:
    """Return answers that take much time or memory to evaluate, or create the file `marker` if they are run as code."""
    code = [each.replace("{marker}", marker) for each in _CODE]
    return [*_TOWERS, *_GROWTH, *_DEPTH, *_NESTED, *_SPECIAL, *code]
