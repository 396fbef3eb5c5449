"""Published rules that skip examples, each written from its formula, with the constants of its paper."""

from gradorder_lab.published.ies import IES as IES
from gradorder_lab.published.kakurenbo import Kakurenbo as Kakurenbo
from gradorder_lab.published.order_dp import OrderDP as OrderDP
from gradorder_lab.published.repb import RePB as RePB
from gradorder_lab.published.rs2 import RS2 as RS2
from gradorder_lab.published.seta import SeTa as SeTa
