"""Models that the experiments train and the benchmarks measure, one family per file."""

from gradorder_lab.models.bag_of_words import BagOfWords as BagOfWords
from gradorder_lab.models.conv_net import conv_net as conv_net
from gradorder_lab.models.mlp import mlp as mlp
from gradorder_lab.models.recurrent import RecurrentClassifier as RecurrentClassifier
from gradorder_lab.models.resnet import resnet18 as resnet18
from gradorder_lab.models.resnet import resnet20 as resnet20
from gradorder_lab.models.small_conv_net import small_conv_net as small_conv_net
from gradorder_lab.models.strided_conv_net import strided_conv_net as strided_conv_net
from gradorder_lab.models.transformer import TransformerClassifier as TransformerClassifier
